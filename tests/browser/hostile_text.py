"""Text that breaks pages which take it for more than text, and a look at whether it did.

Used by the tests of the page.
"""

from playwright.sync_api import Page

__all__ = ["HOSTILE_NAME", "HOSTILE_TEXT", "expect_harmless"]

_LONG_WORD = "Donaudampfschiff" * 625  # 10,000 characters
_MARKUP = (
    "<script>document.title='run'</script> "
    "<img src=http://attacker.example/x onerror=\"document.title='run'\"> "
    "${document.title='run'} {{7*7}} ${7*7} </textarea></template> &lt;b&gt; <!-- "
)
HOSTILE_TEXT = (
    f"{_MARKUP}\n\t\ttabs\there\t \u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd "
    "\u2066isolated \U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301\u0302\u0323\u0335 "
    f"\x07\x1b[31m \u2028line\u2029 {_LONG_WORD}\n```\n{_MARKUP}"
)
HOSTILE_NAME = "<img src=x onerror=document.title=1>${7*7} \u202efdp.{{7*7}}" + "n" * 90 + ".md"


def expect_harmless(page: Page) -> None:
    """Nothing of it was run, taken for markup or a template, or made the page wider."""
    assert page.title() == "Lookahead Chat"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for area in ("#panel", "#comparison"):
        made_up = page.locator(f"{area} :is(script, img, textarea, template)")
        assert made_up.count() == 0, made_up.evaluate_all("found => found.map(n => n.outerHTML)")
