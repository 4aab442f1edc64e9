"""What a benchmark refuses, in a sentence for the user.

BenchError
└── PromptSetError      (prompt_sets.py) a file of prompts cannot be used
"""

__all__ = ["BenchError"]


class BenchError(Exception):
    """The run cannot be made. The message says why and what to do."""
