package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
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
trusted_proxies: []
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

// drawFile makes up a file that is right.
func drawFile(t *rapid.T) *File {
	file := &File{Service: Service{
		Store: rapid.SampledFrom([]string{"", "memory:", "redis://u:hunter2@h:1/0?a=b", "postgres://u@h/db?password=hunter2&x=%20",
			"redis+sentinel://:p@[::1]:1,b:2/m"}).Draw(t, "store"),
		StoreTimeout:   time.Duration(rapid.SampledFrom([]int64{0, 1, 50, 1500, 60_000}).Draw(t, "timeout")) * time.Millisecond,
		Failure:        rapid.SampledFrom([]string{"", FailOpen, FailClosed, FailLocal}).Draw(t, "failure"),
		TrustedProxies: drawAddresses(t, 1),
	}}
	names := rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_.-]{1,6}`),
		rapid.SampledFrom([]string{"default", "null", "true", "-", "---", "5", "0x1", "1e3", "...", "n", "_"})), 1, 4, rapid.ID).Draw(t, "names")
	for _, name := range names {
		file.Policies = append(file.Policies, drawPolicy(t, name))
	}
	if rapid.Bool().Draw(t, "has default") {
		file.Service.Default = rapid.SampledFrom(names).Draw(t, "default")
	}
	return file
}

func drawPolicy(t *rapid.T, name string) Policy {
	key, err := ParseTemplate(rapid.SampledFrom([]string{"address", "{user} {path}", "{{{header:X-Key}}}", "é\"\\{key}#"}).Draw(t, "key"))
	if err != nil {
		t.Fatal(err)
	}
	cost, err := ParseCost(rapid.SampledFrom([]string{"1", "0", "9007199254740991", "bytes", `field:a\.b."c`}).Draw(t, "cost"))
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{
		Name: name, Key: key, Cost: cost, Limits: drawLimits(t, "limits", 100),
		Match:   rapid.SampledFrom([]string{"", "/", "GET /{$}", "h.example/a\"b/"}).Draw(t, "match"),
		Allow:   List{Addresses: drawAddresses(t, 0), Keys: drawKeys(t)},
		Deny:    List{Addresses: drawAddresses(t, 0), Keys: drawKeys(t)},
		Shadow:  rapid.Bool().Draw(t, "shadow"),
		Failure: rapid.SampledFrom([]string{"", FailOpen, FailClosed, FailLocal}).Draw(t, "failure"),
	}
	var seen reach
	for _, key := range drawKeys(t) {
		o := Override{Key: key, Pattern: strings.Contains(key, "*"), Unlimited: rapid.Bool().Draw(t, "unlimited")}
		if !o.Unlimited {
			o.Limits = drawLimits(t, "override", 1)
		}
		if _, covered := seen.before(o); !covered {
			seen.add(o, 1)
			p.Overrides = append(p.Overrides, o)
		}
	}
	if rapid.Bool().Draw(t, "has candidate") {
		p.Candidate = drawLimits(t, "candidate", 200) // other quotas than those of the limits
	}
	return p
}

// drawLimits makes up to three limits with quotas from least to least + 90, which do not share counts.
func drawLimits(t *rapid.T, label string, least int64) (limits []slidegate.Limit) {
	windows := rapid.SliceOfNDistinct(rapid.SampledFrom([]time.Duration{time.Millisecond, 90 * time.Second, time.Hour, 36 * time.Hour}),
		1, 3, rapid.ID).Draw(t, label)
	for _, window := range windows {
		limit := slidegate.Limit{
			Name: rapid.SampledFrom([]string{"", "a", "b c", "\"#: é", "- x"}).Draw(t, "name"), Quota: rapid.Int64Range(least, least+90).Draw(t, "quota"),
			Window: window, Algorithm: slidegate.Algorithm(rapid.IntRange(0, 3).Draw(t, "algorithm")),
			CountDenied: rapid.Bool().Draw(t, "count denied"),
		}
		switch limit.Algorithm {
		case slidegate.SlidingWindow:
			limit.Segments = rapid.IntRange(0, 2).Draw(t, "segments")
			limit.Overlap = slidegate.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
		case slidegate.TokenBucket:
			limit.Burst = rapid.Int64Range(0, 5).Draw(t, "burst")
		}
		limits = append(limits, limit)
	}
	return limits
}

func drawAddresses(t *rapid.T, least int) (all []netip.Prefix) {
	for range rapid.IntRange(0, 2).Draw(t, "addresses") {
		addr := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "IPv4")))
		if rapid.Bool().Draw(t, "is IPv6") {
			addr = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "IPv6"))).Unmap()
		}
		all = append(all, netip.PrefixFrom(addr, rapid.IntRange(least, addr.BitLen()).Draw(t, "bits")).Masked())
	}
	return all
}

func drawKeys(t *rapid.T) []string {
	keys := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[ab*]{1,4}`), rapid.StringN(1, 5, 20)), 0, 4).Draw(t, "keys")
	if len(keys) == 0 {
		return nil
	}
	return keys
}

func TestFormatIsReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := drawFile(t)
		text := Format(file)
		again, err := Parse("f", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if want := understood(file); !reflect.DeepEqual(again, want) {
			t.Fatalf("%s\nis read as %+v\nwant %+v", text, again, want)
		}
		if twice := Format(again); string(twice) != string(text) {
			t.Fatalf("first\n%s\nthen\n%s", text, twice)
		}
		if strings.Contains(string(text), "hunter2") {
			t.Fatalf("a password shows in\n%s", text)
		}
	})
}
