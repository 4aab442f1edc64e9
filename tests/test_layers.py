"""The layers of docs/architecture.md, read from the imports of every file."""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "lookahead", "storage")

WEB = {"gradio", "fastapi", "starlette", "uvicorn"}
# The engine's modules that may hold tensors; all others are bookkeeping.
TORCH_MODULES = {
    *(
        "adapter",
        "path_attention",
        "cascade_attention",
        "attention_probe",
        "loaded_model",
        "self_test",
        "kv_cache",
        "packed_weights",
        "sampling",
    ),
    *("session", "decoding", "loader", "hf_hook", "gguf_conversion", "fingerprints", "divergence"),
    *("strictness", "top_ids", "priming", "deeper_reading"),
}
# What knows the library of models; the loop itself does not.
TRANSFORMERS_MODULES = TORCH_MODULES - {
    *("sampling", "session", "decoding", "self_test", "top_ids", "priming", "deeper_reading")
}
# Below the loop (layer 1): they are used by it and never use it.
BELOW_THE_LOOP = {
    *(
        "adapter",
        "path_attention",
        "cascade_attention",
        "attention_probe",
        "loaded_model",
        "self_test",
        "kv_cache",
        "packed_weights",
        "sampling",
    )
}
# Layer 3, where engine and database meet; all of it is below the page.
SERVICES = (
    *("app.services", "app.prompting", "app.prompt", "app.retrieval", "app.importing"),
    "app.chat_template",
)
PAGE = (
    *(
        "app.ui",
        "app.chat_tab",
        "app.event_options",
        "app.handlers",
        "app.presenters",
        "app.api",
        "app.api_request",
    ),
    *("app.server", "app.security", "app.idle_streams", "app.early_script"),
    *("app.panel", "app.panel_handlers", "app.panel_log", "app.panel_presenter"),
    *("app.payloads", "app.tab_view", "app.page_errors", "app.demo_handlers"),
    *("app.sampling_controls", "app.typed_options"),
    *("app.compare_tab", "app.compare_handlers", "app.compare_presenter"),
    *("app.documents_tab", "app.document_handlers", "app.document_presenter"),
    *("app.document_folders", "app.uploads", "app.undo_bar", "app.undo_handlers"),
    *("app.trie_tab", "app.trie_handlers", "app.trie_presenter"),
    *("app.settings_tab", "app.settings_handlers"),
)
BENCHMARK = ("app.bench",)
COMMAND_LINE = ("app.cli", "app.__main__", "app.trie_commands", "app.terminal", "app.listening")
# Words, figures and places that the page, the command line and the services share.
SHARED = (
    *("app.looks", "app.numbers", "app.trie_numbers", "app.plain_text"),
    *("app.paths", "app.settings", "app.upload_folder", "app.demo"),
)
# What the page may take from below: plain records and the errors it shows.
PAGE_MAY_USE = {
    *("storage.records", "storage.errors"),
    *("lookahead.errors", "lookahead.events", "lookahead.draft", "lookahead.config"),
}


def modules() -> dict[str, Path]:
    """Every module of the three packages by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """Every module imported anywhere in a file, also inside functions and for types only."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (submodules & MODULES.keys()) or {node.module}
    return names


MODULES = modules()
IMPORTS = {name: imports(path) for name, path in MODULES.items()}
ENGINE = {
    name.removeprefix("lookahead."): name for name in MODULES if name.startswith("lookahead.")
}


def is_in(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offenders(users: Iterable[str], forbidden: Iterable[str]) -> list[str]:
    """`user imports used`, for every forbidden import."""
    forbidden = set(forbidden)
    return [
        f"{user} imports {used}"
        for user in sorted(users)
        for used in sorted(IMPORTS[user])
        if is_in(used, forbidden)
    ]


def users_in(*packages: str) -> list[str]:
    found = [name for name in MODULES if is_in(name, packages)]
    assert found, f"no module in {packages}: the rule has lost its subject"
    return found


def test_every_module_of_the_app_is_in_exactly_one_of_the_lists() -> None:
    """One was named twice, and those that were named nowhere kept to no rule."""
    named = (*SERVICES, *PAGE, *BENCHMARK, *COMMAND_LINE, *SHARED)
    assert set(named) <= MODULES.keys()
    for module in users_in("app"):
        places = [name for name in named if is_in(module, [name])]
        assert len(places) == (module != "app"), f"{module}: {places}"


def test_what_is_shared_knows_nobody_who_shares_it() -> None:
    assert offenders(users_in(*SHARED), {*WEB, *PAGE, *COMMAND_LINE, *BENCHMARK}) == []
    assert offenders(users_in(*COMMAND_LINE), WEB) == []


def test_the_web_is_only_in_the_app_and_not_in_its_services() -> None:
    assert offenders(users_in("lookahead", "storage", *SERVICES), WEB) == []


def test_engine_and_database_never_import_each_other_or_the_app() -> None:
    assert offenders(users_in("lookahead"), {"app", "storage", "sqlite3", "sqlite_utils"}) == []
    assert offenders(users_in("storage"), {"app", "lookahead", "torch", "transformers"}) == []


def test_services_are_below_the_page() -> None:
    assert offenders(users_in(*SERVICES), {*PAGE, *COMMAND_LINE}) == []


def test_the_page_reaches_engine_and_database_through_the_services_only() -> None:
    page = users_in(*PAGE)
    found = {f"{user} imports {used}" for user in page for used in IMPORTS[user] & PAGE_MAY_USE}
    assert set(offenders(page, {"lookahead", "storage", "torch", "transformers"})) == found


def test_the_benchmark_knows_no_page_and_only_the_command_line_knows_it() -> None:
    assert offenders(users_in(*BENCHMARK), {*WEB, *PAGE}) == []
    others = [name for name in MODULES if not is_in(name, {"app.bench", "app.cli"})]
    assert offenders(others, {"app.bench"}) == []


def test_sql_is_only_in_storage() -> None:
    assert offenders(users_in("app", "lookahead"), {"sqlite3", "sqlite_utils"}) == []


@pytest.mark.parametrize(
    ("library", "allowed"), [("torch", TORCH_MODULES), ("transformers", TRANSFORMERS_MODULES)]
)
def test_only_named_modules_of_the_engine_import(library: str, allowed: set[str]) -> None:
    assert allowed <= ENGINE.keys()
    bookkeeping = [name for short, name in ENGINE.items() if short not in allowed]
    assert offenders(bookkeeping, {library}) == []


def test_bookkeeping_does_not_lead_to_torch_through_another_module() -> None:
    allowed = {f"lookahead.{name}" for name in TORCH_MODULES}
    bookkeeping = set(ENGINE.values()) - allowed - {"lookahead.embedded_model"}
    assert offenders(bookkeeping, allowed) == []


def test_adapter_cache_and_sampling_are_below_the_loop() -> None:
    below = [ENGINE[name] for name in BELOW_THE_LOOP]
    assert offenders(below, {"lookahead.decoding", "lookahead.session", "lookahead.loader"}) == []


def test_published_drafters_are_for_comparison_only() -> None:
    """Nothing of the product drafts with them, and all they need is bookkeeping."""
    drafters = "lookahead.drafters"
    product = [name for name in MODULES if not is_in(name, {drafters, "app.bench"})]
    assert users_in(drafters)
    assert offenders(product, {drafters}) == []
    assert offenders(users_in(drafters), {"torch", "transformers", "app", "storage"}) == []


def test_the_launcher_needs_the_standard_library_only() -> None:
    used = {name.split(".")[0] for name in imports(ROOT / "launch.py")}
    assert used - sys.stdlib_module_names == {"app"}
