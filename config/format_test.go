package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	t.Setenv("SLIDEGATE_TEST_PASSWORD", "hunter2")
	file, err := Load(Options{}, "testdata/service.yaml")
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
# jwt: not given, so keys and plans cannot use claims
default_policy: api
# refusal: the default texts
policies:
  api:
    # match: every request
    key: "{header:X-Api-Key}"
    cost: 1
    limits:
      - 100/1m # hard cap
      - 1000/1h # hard cap
    overrides:
      - key: "alice"
        limits:
          - 200/1m # hard cap
      - key: "12345"
        unlimited: true
      - keys: "team-*"
        limits:
          - 1000/1m overlap=whole # sliding-window segments=1 anchor=clock
    # plans: none
    allow:
      - "127.0.0.1"
      - "key:health"
    block: []
    # penalty: none
    # wait: none
    # refusal: that of the file
    shadow: true
    failure: local
    lease: false
  export:
    match: "GET example.com/export/{id}"
    # key: not given; "{address}" over HTTP, and whatever an application sends
    cost: "bytes"
    limits:
      - 100/1m # hard cap
      - 1000/1h # hard cap
    overrides: []
    # plans: none
    allow: []
    block: []
    # penalty: none
    # wait: none
    # refusal: that of the file
    shadow: false
    failure: local
    lease: false
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
failure: local
# trusted_proxies: not given; only a proxy on this machine may call /v1/check, or none if tokens are required
address_groups: {ipv4: 32, ipv6: 64, embedded_ipv4: true}
# jwt: not given, so keys and plans cannot use claims
# default_policy: none, so a client must name its policy
# refusal: the default texts
policies:
  a:
    # match: every request
    # key: not given; "{address}" over HTTP, and whatever an application sends
    cost: 1
    limits:
      - 5/1s token-bucket # burst=5
      - "6/1m fixed-window name=\"b # c\"" # anchor=clock
    overrides: []
    # plans: none
    allow: []
    block: []
    # penalty: none
    # wait: none
    # refusal: that of the file
    shadow: false
    failure: local
    lease: false
  "on":
`
	if got := string(Format(file)); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if text := durationText(time.Minute); text != "1m" {
		t.Errorf("a minute: got %s", text)
	}
}

// The comment beside a limit shows how it counts, and the output is read as the same file.
func TestFormatChoices(t *testing.T) {
	file, err := Parse("f", []byte(`policies:
  a:
    limits:
      - 60/1m
      - {quota: 1000, calendar: month}
      - {quota: 50, algorithm: in-flight, ttl: 30s, name: slots}
      - {quota: 7, window: day, zone: Europe/Berlin}
      - 5/1h sliding-window
      - 5/1s anchor=first
      - {quota: 5, window: 2s, overlap: up}
      - {quota: 5, window: 3s, anchor: clock}
    overrides: [{key: vip, limits: [600/1m, 600/1h, 100 in-flight ttl=30s name=slots]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `    limits:
      - 60/1m # hard cap
      - 1000/month # fixed-window zone=UTC
      - "50 in-flight ttl=30s name=\"slots\""
      - 7/day zone=Europe/Berlin # fixed-window
      - 5/1h sliding-window # segments=1 overlap=up anchor=clock
      - 5/1s anchor=first # sliding-window segments=1 overlap=up
      - 5/2s sliding-window # segments=1 overlap=up anchor=clock
      - 5/3s sliding-window # segments=1 overlap=up anchor=clock
    overrides:
      - key: "vip"
        limits:
          - 600/1m # hard cap
          - 600/1h # hard cap
          - "100 in-flight ttl=30s name=\"slots\""
`
	got := string(Format(file))
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := Parse("f", []byte(got))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := again.Policies[0], file.Policies[0]; !slices.Equal(a.Limits, b.Limits) || !slices.Equal(a.Overrides[0].Limits, b.Overrides[0].Limits) {
		t.Errorf("got\n%v\nwant\n%v", a, b)
	}
}
