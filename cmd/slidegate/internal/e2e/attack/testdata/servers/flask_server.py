"""Serves POST /login: python3 flask_server.py PORT"""
import sys

from flask import Flask, request

app = Flask(__name__)


@app.post("/login")
def login():
    return "LOGIN key=" + request.headers.get("X-Api-Key", "")


app.run("127.0.0.1", int(sys.argv[1]), debug=False)
