package config

import (
	"strings"
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	t.Setenv("SLIDEGATE_TEST_PASSWORD", "hunter2")
	file, err := Load("testdata/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file.Policies = file.Policies[1:]
	const want = `store: "rediss+cluster://slidegate:***@redis-1:6379,[2001:db8::1]:6379/0?client_name=a"
store_timeout: 50ms
failure: local
trusted_proxies:
  - "10.0.0.0/8"
  - "::1"
  - "192.0.2.1"
  - "198.51.100.0/24"
address_groups: {ipv4: 32, ipv6: 56, embedded_ipv4: true}
default_policy: api
policies:
  api:
    # match: every request
    key: "{header:X-Api-Key}"
    cost: 1
    limits:
      - 100/1m # sliding-window segments=1 overlap=up anchor=clock
      - 1000/1h # sliding-window segments=1 overlap=up anchor=clock
    overrides:
      - key: "alice"
        limits:
          - 200/1m # sliding-window segments=1 overlap=up anchor=clock
      - key: "12345"
        unlimited: true
      - keys: "team-*"
        limits:
          - 1000/1m overlap=whole # sliding-window segments=1 anchor=clock
    allow:
      - "127.0.0.1"
      - "key:health"
    deny: []
    shadow: true
    failure: local
    candidate:
      - 50/1m # sliding-window segments=1 overlap=up anchor=clock
      - 1000/1h # sliding-window segments=1 overlap=up anchor=clock
  export:
    match: "GET example.com/export/{id}"
    key: "{address}"
    cost: "bytes"
    limits:
      - 100/1m # sliding-window segments=1 overlap=up anchor=clock
      - 1000/1h # sliding-window segments=1 overlap=up anchor=clock
    overrides: []
    allow: []
    deny: []
    shadow: false
    failure: local
    candidate:
      - 100/1m sliding-log
`
	if got := string(Format(file)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFormatDefaults(t *testing.T) {
	file, err := Parse("f", []byte("policies:\n  a: {limits: [5/1s token-bucket, '6/1m fixed-window name=\"b # c\"']}\n  \"on\": {limits: [1/1s]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `store: "memory:"
store_timeout: 100ms
failure: open
# trusted_proxies: not given; only a proxy on this machine may ask /v1/check, and none if there are tokens
address_groups: {ipv4: 32, ipv6: 64, embedded_ipv4: true}
# default_policy: none, so that a client must name its policy
policies:
  a:
    # match: every request
    key: "{address}"
    cost: 1
    limits:
      - 5/1s token-bucket # burst=5
      - "6/1m fixed-window name=\"b # c\"" # anchor=clock
    overrides: []
    allow: []
    deny: []
    shadow: false
    failure: open
    # candidate: none
  "on":
`
	if got := string(Format(file)); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if text := durationText(time.Minute); text != "1m" {
		t.Errorf("a minute is written %s", text)
	}
}
