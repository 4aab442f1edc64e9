"""The tab "Chat": the conversation, its composer and options, and all that moves it elsewhere.

Knows no service. `app.ui` puts it among the tabs, beside the panel.
"""

from dataclasses import dataclass

import gradio as gr
from gradio.events import Dependency

from app.demo_handlers import DemoHandlers
from app.event_options import QUIET, WATCH
from app.handlers import PageHandlers
from app.sampling_controls import SamplingControls, optional_number, sampling_controls
from app.services.views import AnswerOptions

__all__ = ["ChatTab", "SideBar", "chat_tab", "wire_chat"]

_LATEX_DELIMITERS: list[dict[str, str | bool]] = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
_PLACEHOLDER = (  # a line end within a paragraph would be shown as one
    "### What would you like to know?\nEverything stays on this machine. Earlier chats and your "
    "documents suggest the next words, and the model checks them: its own answer, in fewer steps."
)


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


def chat_tab(default_lookahead: bool) -> ChatTab:
    """The components, to be made inside a `gr.Tab`."""
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


def wire_chat(
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
        **QUIET,
    )
    demo = side.demo.click(demo_handlers.start, view, shown, **QUIET)
    delete = side.chats.delete_chat(handlers.delete_chat, view, shown, **QUIET)
    for moved in (
        ask,
        demo,
        page.load(handlers.open_page, view, shown, **QUIET),
        side.new_chat.click(handlers.new_chat, view, shown, **QUIET),
        side.chats.open_chat(handlers.open_chat, view, shown, **QUIET),
        delete,
        panel.open_chat(handlers.open_chat, view, shown, **QUIET),
        trie.open_chat(handlers.open_chat, view, shown, **QUIET),
    ):
        moved.then(demo_handlers.watch, view, shown, trigger_mode="multiple", **WATCH)
        moved.then(handlers.document_switch, view, tab.documents, **QUIET)
    tab.stop.click(handlers.stop, view, None, queue=False, **QUIET)
    tab.documents.input(handlers.use_documents, [view, tab.documents], None, **QUIET)
    for event, handler in (
        (panel.toggle_panel, handlers.panel.toggle_panel),
        (panel.show_answer, handlers.panel.show_answer),
        (panel.hold_answer, handlers.panel.hold_answer),
    ):
        event(handler, view, panel, trigger_mode="multiple", **QUIET)
    return demo, delete
