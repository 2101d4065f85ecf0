"""Serves POST /login: python3 django_server.py PORT"""
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="test", USE_TZ=False)


@require_POST
def login(request):
    return HttpResponse("LOGIN key=" + request.headers.get("X-Api-Key", ""))


urlpatterns = [path("login", login)]

execute_from_command_line(["django", "runserver", "--noreload", "127.0.0.1:" + sys.argv[1]])
