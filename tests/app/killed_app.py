"""A chat service at work until it is killed: it answers, imports, deletes and brings back.

`python -m tests.app.killed_app DATA CACHE` tells on standard output what has been committed. Run by
`test_kills.py`.
"""

import sys
from itertools import count
from pathlib import Path

from app.services import ChatService, ServiceConfig
from tests.app.asking import OPTIONS, WAIT
from tests.app.scripted_engine import ScriptedEngine


def work(data_dir: Path, cache_dir: Path) -> None:
    """Never ends by itself."""
    config = ServiceConfig(data_dir, cache_dir, model="scripted")
    service = ChatService(config, engine=ScriptedEngine("It is Paris. " * 20))
    service.start()
    assert service.wait_until_ready(WAIT).is_ready
    print("ready", flush=True)
    for number in count():
        job = service.ask(None, f"question {number}", OPTIONS)
        assert job.wait_until_over(WAIT).status == "complete"
        print("answer", job.conversation_id, job.message_id, flush=True)
        path = data_dir.parent / f"{data_dir.parent.name}-{number}.txt"
        path.write_text(f"All about {path.name}. " * 200)
        service.import_paths([path]).wait_until_over(WAIT)
        if number % 2:
            chat = service.conversations()[0].id
            service.delete_conversation(chat)
            service.undo("conversation", [chat])
            service.delete_documents([service.documents()[0].id])


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]))
