"""The page: components first, wiring second. Looks are in `static/*.css`.

Knows no service; `app.server` mounts what `build_page` returns. Text that people or the model wrote
reaches `gr.HTML` as data only: its scripts set `textContent`, its templates are static (a template
with a value in it would run the value as code).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.data_classes import BlocksConfigDict
from gradio.events import Dependency

from app import presenters
from app.compare_handlers import CompareHandlers
from app.compare_tab import COMPARE_CSS, compare_tab, wire_compare
from app.demo_handlers import DemoHandlers
from app.document_handlers import DocumentHandlers
from app.documents_tab import DOCUMENTS_CSS, documents_tab, wire_documents
from app.handlers import PageHandlers
from app.panel import PANEL_CSS, panel_component
from app.sampling_controls import SamplingControls, optional_number, sampling_controls
from app.services.views import AnswerOptions
from app.settings_handlers import SettingsHandlers
from app.settings_tab import settings_tab, wire_settings
from app.tab_view import TabView
from app.trie_handlers import TrieHandlers
from app.trie_tab import TRIE_CSS, trie_tab, wire_trie
from app.undo_bar import UNDO_CSS, undo_bar, wire_undo
from app.undo_handlers import UndoHandlers

__all__ = ["PAGE_CSS", "build_page", "page_theme"]

_STATIC = Path(__file__).parent / "static"
PAGE_CSS = [_STATIC / "page.css", PANEL_CSS, COMPARE_CSS, DOCUMENTS_CSS, TRIE_CSS, UNDO_CSS]

_LATEX_DELIMITERS: list[dict[str, str | bool]] = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
_PLACEHOLDER = (  # a line end within a paragraph would be shown as one
    "### What would you like to know?\nEverything stays on this machine. Earlier chats and your "
    "documents suggest the next words, and the model checks them: its own answer, in fewer steps."
)
_CHAT_LIST = '<nav aria-label="Chats"><ul></ul><p>No chats yet.</p></nav>'
_STATUS_LINE = '<p role="status"><span class="dot"></span><span class="text"></span></p>'
# The side bar covers a narrow screen: it starts closed, and opens where there is room beside it.
_SIDEBAR_OPEN = """() => {
  const style = getComputedStyle(document.querySelector('#chat-row'));
  return { open: style.getPropertyValue('--room').trim() !== 'narrow', __type__: 'update' };
}"""
_WHETHER_HIDDEN = "(view, line) => [view, { ...line, is_hidden: document.hidden }]"
_SHOW_CHAT = "() => ({ selected: 'chat', __type__: 'update' })"
_OPEN_DEMO = (_STATIC / "open_demo.js").read_text(encoding="utf-8")
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# Watching costs the model nothing, so tabs never wait for one another.
_WATCH: dict[str, Any] = {**_QUIET, "concurrency_limit": None}


@dataclass(frozen=True, slots=True)
class SideBar:
    """The components of the side bar."""

    new_chat: gr.Button
    demo: gr.Button
    chats: gr.HTML


@dataclass(frozen=True, slots=True)
class ChatTab:
    """The components of the chat."""

    chatbot: gr.Chatbot
    message: gr.Textbox
    send: gr.Button
    stop: gr.Button
    lookahead: gr.Checkbox
    documents: gr.Checkbox
    temperature: gr.Textbox
    max_new_tokens: gr.Number
    sampling: SamplingControls


def page_theme() -> gr.themes.Base:
    """Quiet greys with one accent, in the system's own fonts (no request leaves the machine)."""
    return gr.themes.Base(
        primary_hue="teal",
        neutral_hue="slate",
        radius_size="md",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
        font_mono=["ui-monospace", "SF Mono", "Menlo", "Consolas", "monospace"],
    ).set(
        # white on these reads at 4.5:1 and better
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
        checkbox_background_color_selected="*primary_700",
        checkbox_background_color_selected_dark="*primary_700",
        block_info_text_color="*neutral_500",
        block_info_text_color_dark="*neutral_400",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
    )


class _Page(gr.Blocks):
    """A page without gradio's heartbeat, a stream for each tab that nothing here needs.

    A browser has six connections to one address for all of its tabs: what a tab holds for good is
    taken from the others.
    """

    def get_config_file(self) -> BlocksConfigDict:
        config = super().get_config_file()
        config["connect_heartbeat"] = False
        return config


def build_page(
    handlers: PageHandlers,
    demo_handlers: DemoHandlers,
    compare_handlers: CompareHandlers,
    document_handlers: DocumentHandlers,
    undo_handlers: UndoHandlers,
    trie_handlers: TrieHandlers,
    settings_handlers: SettingsHandlers,
    *,
    default_lookahead: bool = True,
) -> gr.Blocks:
    """The whole page, wired to its handlers."""
    page: gr.Blocks
    with _Page(
        title="Lookahead Chat", analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)
    ) as page:
        view = gr.State(TabView())
        with gr.Sidebar(open=False, width=288, elem_id="sidebar") as sidebar:
            gr.HTML("<h1>Lookahead Chat</h1>", elem_id="brand")
            new_chat = gr.Button("New chat", elem_id="new-chat", size="md")
            demo = gr.Button("Demo", elem_id="demo", size="md")
            chats = _scripted("chat_list", presenters.chat_list([], None), _CHAT_LIST)
        nothing = {"status": "", "text": "", "more": "", "wake": 0, "beat": 0}
        status = _scripted("status_line", nothing, _STATUS_LINE)
        with gr.Tabs() as tabs:
            with gr.Tab("Chat", id="chat"), gr.Row(elem_id="chat-row"):
                chat = _chat_column(default_lookahead)
                panel = panel_component(handlers.panel.step_details)
            with gr.Tab("Documents") as shown_documents_tab:
                documents = documents_tab()
            with gr.Tab("Trie") as shown_trie_tab:
                trie = trie_tab(trie_handlers)
            with gr.Tab("Compare") as shown_compare_tab:
                comparison = compare_tab()
            with gr.Tab("Settings") as shown_settings_tab:
                idle_learning = settings_tab()
        undo = undo_bar()
        side = SideBar(new_chat, demo, chats)
        started, deleted_chat = _wire_chat(
            page, handlers, demo_handlers, chat, view=view, side=side, links=(panel, trie)
        )
        started.success(None, None, [tabs, sidebar], js=_OPEN_DEMO)
        trie.open_chat(None, None, tabs, js=_SHOW_CHAT)
        wire_trie(trie_handlers, trie, shown_trie_tab)
        wire_compare(
            page, compare_handlers, comparison, shown_compare_tab, view=view, status=status
        )
        wire_settings(page, settings_handlers, idle_learning, shown_settings_tab, view=view)
        deleted_documents, ended_imports = wire_documents(
            page,
            document_handlers,
            documents,
            view=view,
            status=status,
            panel=panel,
            shown=shown_documents_tab,
        )
        for deletion in deleted_documents:
            deletion.then(handlers.conversation, view, chat.chatbot, **_QUIET)
        shown = [chat.chatbot, chats, chat.send, chat.stop, panel]
        status.enter_tab(demo_handlers.watch_again, view, shown, trigger_mode="multiple", **_WATCH)
        wire_undo(
            page,
            undo_handlers,
            document_handlers,
            undo,
            deletions=[deleted_chat, *deleted_documents, *ended_imports],
            view=view,
            shown=shown,
            documents=documents.documents,
        )
        # with the page's first events, so that the stream has no moment without something pending
        page.load(handlers.watch_engine, [view, status], status, js=_WHETHER_HIDDEN, **_WATCH)
        status.enter_tab(handlers.watch_engine, view, status, trigger_mode="multiple", **_WATCH)
        status.leave_tab(
            handlers.leave_tab, view, None, trigger_mode="multiple", queue=False, **_QUIET
        )
        page.load(None, None, sidebar, js=_SIDEBAR_OPEN)
    return page


def _scripted(name: str, value: Any, template: str) -> gr.HTML:
    """An HTML component with a static template, filled by `static/<name>.js`."""
    return gr.HTML(
        value,
        html_template=template,
        js_on_load=(_STATIC / f"{name}.js").read_text(encoding="utf-8"),
        elem_id=name.replace("_", "-"),
        apply_default_css=False,
    )


def _chat_column(default_lookahead: bool) -> ChatTab:
    with gr.Column(elem_id="chat-column"):
        chatbot = gr.Chatbot(
            label="Conversation",
            show_label=False,
            container=False,
            height="100%",
            elem_id="chatbot",
            layout="bubble",
            buttons=["copy"],
            feedback_options=None,
            # each answer and its numbers stand alone, so that Copy takes the answer only
            group_consecutive_messages=False,
            placeholder=_PLACEHOLDER,
            latex_delimiters=_LATEX_DELIMITERS,
            allow_tags=True,
            sanitize_html=True,
            reasoning_tags=[("<think>", "</think>")],
        )
        with gr.Row(elem_id="composer", elem_classes="composer"):
            message = gr.Textbox(
                label="Message",
                show_label=False,
                container=False,
                placeholder="Ask something …",
                lines=1,
                max_lines=8,
                autofocus=True,
                scale=1,
                elem_id="message",
            )
            send = gr.Button("Send", variant="primary", scale=0, min_width=88, elem_id="send")
            stop = gr.Button(
                "Stop", variant="stop", scale=0, min_width=88, elem_id="stop", visible=False
            )
        with gr.Row(elem_id="options", elem_classes="options"):
            lookahead = gr.Checkbox(default_lookahead, label="Lookahead", container=False)
            documents = gr.Checkbox(False, label="Documents", container=False)
            temperature = optional_number("Temperature")
            max_new_tokens = gr.Number(AnswerOptions().max_new_tokens, label="Max tokens")
        sampling = sampling_controls("chat-sampling")
    return ChatTab(
        chatbot, message, send, stop, lookahead, documents, temperature, max_new_tokens, sampling
    )


def _wire_chat(
    page: gr.Blocks,
    handlers: PageHandlers,
    demo_handlers: DemoHandlers,
    tab: ChatTab,
    *,
    view: gr.State,
    side: SideBar,
    links: tuple[gr.HTML, gr.HTML],
) -> tuple[Dependency, Dependency]:
    """Everything of the chat. Returns the start of the demo and the deletion of a chat.

    `links`: the panel, and the Trie, which name chats to be opened.
    """
    panel, trie = links
    shown = [tab.chatbot, side.chats, tab.send, tab.stop, panel]
    question = [tab.message, tab.lookahead, tab.temperature, tab.max_new_tokens, tab.documents]
    question += [tab.sampling.seed, *tab.sampling.filters]
    ask = gr.on(
        [tab.message.submit, tab.send.click],
        handlers.ask,
        [view, *question],
        [tab.message, *shown],
        **_QUIET,
    )
    demo = side.demo.click(demo_handlers.start, view, shown, **_QUIET)
    delete = side.chats.delete_chat(handlers.delete_chat, view, shown, **_QUIET)
    for moved in (
        ask,
        demo,
        page.load(handlers.open_page, view, shown, **_QUIET),
        side.new_chat.click(handlers.new_chat, view, shown, **_QUIET),
        side.chats.open_chat(handlers.open_chat, view, shown, **_QUIET),
        delete,
        panel.open_chat(handlers.open_chat, view, shown, **_QUIET),
        trie.open_chat(handlers.open_chat, view, shown, **_QUIET),
    ):
        moved.then(demo_handlers.watch, view, shown, trigger_mode="multiple", **_WATCH)
        moved.then(handlers.document_switch, view, tab.documents, **_QUIET)
    tab.stop.click(handlers.stop, view, None, queue=False, **_QUIET)
    tab.documents.input(handlers.use_documents, [view, tab.documents], None, **_QUIET)
    for event, handler in (
        (panel.toggle_panel, handlers.panel.toggle_panel),
        (panel.show_answer, handlers.panel.show_answer),
        (panel.hold_answer, handlers.panel.hold_answer),
    ):
        event(handler, view, panel, trigger_mode="multiple", **_QUIET)
    return demo, delete
