"""The app: page, HTTP API, importers, prompt building, command line.

Only here do engine (`lookahead`) and database (`storage`) meet; only here gradio and fastapi.
"""

__version__ = "0.1.0"
