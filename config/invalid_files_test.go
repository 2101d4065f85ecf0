package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
)

// The lists of fields of a file and of a policy in errors. Other tests check the documentation and the schema against them.
var (
	fileList = "(want one of " + strings.Join(fileTable.names(), ", ") + ")"
	partList = "(want one of " + strings.Join(policyTable.names(), ", ") + ")"
)

const (
	limitList = "(want one of name, quota, window, algorithm, segments, overlap, anchor, count_refused, lease, burst, hold, notify, ttl, calendar, zone)"
	leasable  = "; use sliding-window with segments=60 overlap=whole, or leave lease out"
	fieldList = "(want one of address, user, method, path, query, host, status, key, header:NAME, field:PATH, claim:NAME)"
)

// badFiles are invalid files with their errors, line by line.
var badFiles = []struct{ name, text, want string }{
	{"empty", "", `1:1: the file is empty; write policies: and below it at least one policy with limits`},
	{"comment", "# policies\n", `1:1: the file is empty; write policies: and below it at least one policy with limits`},
	{"null", "~\n", `1:1: the file must be a mapping with policies, not nothing`},
	{"list", "- policies\n", `1:1: the file must be a mapping with policies, not a list`},
	{"text", "\n  policies\n", `2:3: the file must be a mapping with policies, not "policies"`},
	{"two documents", "policies: {a: {limits: [1/s]}}\n---\npolicies: {b: {limits: [1/s]}}\n",
		`2:1: a second document begins; put all policies into one, and remove this "---"`},
	{"not UTF-8", "policies:\n  \xe9t\xe9: 1\n", `2:3: the file is not UTF-8`},
	{"not YAML", "policies:\n  a: b: c\n", `2:6: invalid YAML: mapping value is not allowed in this context`},
	{"open bracket", "policies: [a\n", `1:11: invalid YAML: sequence end token ']' not found`},

	{"top field", "policy:\n  a: {limits: [1/s]}\n",
		`1:1: "policy" is not a field of the file; did you mean "policies"? ` + fileList},
	{"top fields", "limits: [1/s]\npolicies: {a: {limits: [1/s]}}\n", `1:1: "limits" is not a field of the file ` + fileList},
	{"no policies", "policies: {}\n", `1:1: no policies; write policies: and below it at least one policy with limits`},
	{"policies null", "policies:\n", `1:1: "policies" has no value; write one, or leave it out`},
	{"policies list", "policies:\n  - api\n", `2:3: policies: must be a mapping of names to policies, not a list`},
	{"policy name", "policies:\n  my api: {limits: [1/s]}\n  \"\": {limits: [1/s]}\n  é: {limits: [1/s]}\n", `
2:3: "my api" is not a valid name for a policy; use only letters, digits, - _ and .
3:3: "" is not a valid name for a policy; use only letters, digits, - _ and .
4:3: "é" is not a valid name for a policy; use only letters, digits, - _ and .`},
	{"policy twice", "policies:\n  a:\n    limits: [1/s]\n  b:\n    limits: [1/s]\n  a:\n    limits: [2/s]\n",
		`6:3: "a" is given twice; the first is on line 2`},
	{"policy null", "policies:\n  a:\n  b: 5\n", `
2:3: "a" has no value; write one, or leave it out
3:6: the policy "b" must be a mapping with limits, not "5"`},

	{"policy field", "policies:\n  a:\n    limit: [1/s]\n  b:\n    keys: user\n    limits: [1/s]\n", `
3:5: "limit" is not a field of a policy; did you mean "limits"? ` + partList + `
5:5: "keys" is not a field of a policy; did you mean "key"? ` + partList},
	{"field twice", "policies:\n  a:\n    key: user\n    limits: [1/s]\n    key: path\n", `5:5: "key" is given twice; the first is on line 3`},
	{"no limits", "policies:\n  a:\n    key: user\n  b: {}\n", `
2:3: the policy "a" has no limits; write limits: and below it at least one, such as - 100/1m
4:3: the policy "b" has no limits; write limits: and below it at least one, such as - 100/1m`},
	{"limits wrong", "policies:\n  a:\n    limits: 1/s\n  b:\n    limits: []\n  c:\n    limits:\n", `
3:13: limits: must be a list, such as [100/1m, 1000/1h], not "1/s"
5:13: limits: must have at least one, such as 100/1m
7:5: "limits" has no value; write one, or leave it out`},
	{"key", "policies:\n  a:\n    key: adress\n    limits: [1/s]\n", `3:10: key: "adress" is not a field; did you mean "address"? ` + fieldList},
	{"key in braces", "policies:\n  a:\n    key: {address}\n    limits: [1/s]\n",
		`3:10: key: must be a string, not a mapping; put it in quotes: "{address}", "header:Name"`},
	{"names of limits", "policies:\n  a:\n    limits:\n      - {name: \"täglich\", quota: 5, window: 1m}\n      - 5/1m name=\"a\\tb\"\n      - {name: " + strings.Repeat("x", 65) + ", quota: 5, window: 1m}\n" +
		"      - 5/1m name=day\n      - 6/1m fixed-window name=day\n      - 7/1s\n      - 8/1h name=7/1s\n" +
		"    overrides: [{key: k, limits: [1/1m name=é]}]\n  " + strings.Repeat("p", 65) + ": {limits: [1/1m]}\n", `
4:9: name: "täglich" is not valid in a header; use printable ASCII
5:9: name: "a\tb" is not valid in a header; use printable ASCII
6:9: name: "` + strings.Repeat("x", 60) + `"... has 65 bytes; use at most 64, since it is written in headers
8:9: name: headers and metrics would name both this limit and the one on line 7 "day"; give each its own name
10:9: name: headers and metrics would name both this limit and the one on line 9 "7/1s"; give each its own name
11:35: name: "é" is not valid in a header; use printable ASCII
12:3: "` + strings.Repeat("p", 60) + `"... has 65 bytes; use at most 64, since the name of a policy is written in headers`},
	{"key list", "policies:\n  a:\n    key: [user, [path]]\n    limits: [1/s]\n  b:\n    key: []\n    limits: [1/s]\n" +
		"  c:\n    key: [address, user]\n    limits: [1/s]\n  d:\n    key: [user, X-Api-Key]\n    limits: [1/s]\n", `
3:17: key: must be a string, not a list
6:10: key: must have at least one template, such as {address}
9:20: key: {user} is never reached, since {address} before it applies to the same requests; put it first, or leave it out
12:17: key: "X-Api-Key" is not a field; write header:X-Api-Key for a header (want one of address, user, method, path, query, host, status, key, header:NAME, field:PATH, claim:NAME)`},
	{"cost", "policies:\n  a:\n    cost: -1\n    limits: [1/s]\n  b:\n    cost: byte\n    limits: [1/s]\n  c:\n    cost: 1.5\n    limits: [1/s]\n", `
3:11: cost: must be 0 to 9007199254740991, not -1
6:11: cost: "byte" is not a cost; did you mean "bytes"? (want a whole number in plain digits, header:NAME, bytes or field:PATH)
9:11: cost: "1.5" is not a cost (want a whole number in plain digits, header:NAME, bytes or field:PATH)`},

	{"lease of limits", "policies:\n  a:\n    limits:\n      - 100/1m sliding-log lease\n      - {quota: 500, window: 1m, count_refused: true, lease: true}\n      - 500/1m anchor=first lease\n" +
		"      - 5 in-flight ttl=30s lease\n      - 10/1s token-bucket burst=2 lease\n      - {quota: 5, window: 1m, overlap: whole, lease: 1}\n      - 600/10s lease\n      - 600/15s lease\n    overrides: [{key: k, limits: [60/1s lease]}]\n", `
4:9: invalid limit: lease: a sliding-log limit cannot be leased, because it counts every unit from the time of its charge` + leasable + ` (in "100/1m sliding-log lease")
5:9: invalid limit: lease: a limit with count_refused cannot be leased, because the store must receive every request` + leasable + `
6:9: invalid limit: lease: a limit with anchor first cannot be leased, because the store does not see the request that starts the window` + leasable + ` (in "500/1m anchor=first lease")
7:9: invalid limit: lease: an in-flight limit cannot be leased, because a slot is held from the time of its charge` + leasable + ` (in "5 in-flight ttl=30s lease")
8:9: invalid limit: lease: a bucket of 2 that refills 1 in 100ms is too small; set burst to at least 4, or leave lease out (in "10/1s token-bucket burst=2 lease")
9:55: lease: must be true or false, not "1"
10:9: invalid limit: lease: the window has 50 parts of 200ms, and units are leased for at most a part; use segments=40 overlap=whole, a window of at least 15s, or leave lease out (in "600/10s lease")
12:35: invalid limit: lease: the window has 50 parts of 20ms, and units are leased for at most a part; use segments=4 overlap=whole, a window of at least 15s, or leave lease out (in "60/1s lease")`},
	{"lease of a policy", "policies:\n  a:\n    lease: true\n    limits:\n      - 100/1m sliding-log\n      - {quota: 500, window: 1h, lease: false}\n    overrides: [{key: k, limits: [60/1s, 60/1d]}, {key: l, limits: [1000/1m count-refused]}]\n" +
		"  b: {limits: [1000/1m], lease: always}\n", `
5:9: invalid limit: lease: a sliding-log limit cannot be leased, because it counts every unit from the time of its charge` + leasable + ` (the policy has lease: true on line 3)
6:34: lease: the policy has lease: true on line 3, which applies to all of its limits; leave it out there and write lease: true for some limits, or leave it out here
7:35: invalid limit: lease: the window has 50 parts of 20ms, and units are leased for at most a part; use segments=4 overlap=whole, a window of at least 15s, or leave lease out (the policy has lease: true on line 3)
7:69: invalid limit: lease: a limit with count_refused cannot be leased, because the store must receive every request` + leasable + ` (the policy has lease: true on line 3)
8:33: lease: must be true or false, not "always"`},
	{"limit text", "policies:\n  a:\n    limits:\n      - 100/1x\n      - 100\n      -\n      - [1/s]\n", `
4:9: invalid limit: window: "1x" is not a duration such as 30s, 1m, 24h or 7d (in "100/1x")
5:9: invalid limit: write a quota and a window, such as 100/1m or 5000 per 24h, or slots, such as 50 in-flight ttl=30s (in "100")
6:8: a limit must be a string such as 100/1m, or a mapping with quota and window, not nothing
7:9: a limit must be a string such as 100/1m, or a mapping with quota and window, not a list`},
	{"limit field", "policies:\n  a:\n    limits:\n      - window: 1h\n        quotta: 5\n      - quota: 5\n        window: 1m\n        count-refused: true\n        colour: red\n", `
5:9: "quotta" is not a field of a limit; did you mean "quota"? ` + limitList + `
8:9: "count-refused" is not a field of a limit; did you mean "count_refused"? ` + limitList + `
9:9: "colour" is not a field of a limit ` + limitList},
	{"limit lacks", "policies:\n  a:\n    limits:\n      - quota: 5\n      - {window: 1m}\n      - {}\n", `
4:9: the limit has no window; add window: 1m, say
5:9: the limit has no quota; add quota: 100, say
6:9: the limit has no quota; add quota: 100, say
6:9: the limit has no window; add window: 1m, say`},
	{"order of the file", "policies:\n  a:\n    key: usr\n  b:\n    limits:\n      - window: 1x\n        colour: red\n", `
2:3: the policy "a" has no limits; write limits: and below it at least one, such as - 100/1m
3:10: key: "usr" is not a field; did you mean "user"? ` + fieldList + `
6:9: the limit has no quota; add quota: 100, say
6:17: invalid limit: window: "1x" is not a duration such as 30s, 1m, 24h or 7d
7:9: "colour" is not a field of a limit ` + limitList},
	{"limit numbers", `policies:
  a:
    limits:
      - {window: 1m, quota: "5"}
      - {window: 1m, quota: five}
      - {window: 1m, quota: 010}
      - {window: 1m, quota: 0x10}
      - {window: 1m, quota: 1.5}
      - {window: 1m, quota: [5]}
      - {window: 1m, quota: 99999999999999999999}
      - {window: 1m, quota: 0}
      - {window: 1m, quota: 5, segments: 99999999999}
`, `
4:29: quota: "5" is a string; write the number without quotes
5:29: quota: "five" is not a whole number in plain digits, at most 9007199254740991
6:29: quota: "010" is not a whole number in plain digits, at most 9007199254740991
7:29: quota: "0x10" is not a whole number in plain digits, at most 9007199254740991
8:29: quota: "1.5" is not a whole number in plain digits, at most 9007199254740991
9:29: quota: must be a whole number, not a list
10:29: quota: "99999999999999999999" is not a whole number in plain digits, at most 9007199254740991
11:9: invalid limit: quota: must be 1 to 9007199254740991, not 0
12:9: invalid limit: segments: must be 1 to 64, not 1073741824`},
	{"limit windows", `policies:
  a:
    limits:
      - {quota: 5, window: 60}
      - {quota: 5, window: 1 h}
      - {quota: 5, window: 1x}
      - {quota: 5, window: 1us}
      - {quota: 5, window: {h: 1}}
`, `
4:28: window: "60" has no unit; write a duration such as 30s, 1m, 24h or 7d
5:28: window: "1 h" contains a space; write a duration such as 30s, 1m, 24h or 7d
6:28: invalid limit: window: "1x" is not a duration such as 30s, 1m, 24h or 7d
7:28: invalid limit: window: must be 1ms to 5 years (43920h), not 1us
8:28: window: must be a string, not a mapping`},
	{"limit choices", `policies:
  a:
    limits:
      - {quota: 5, window: 1m, algorithm: sliding-lock}
      - {quota: 5, window: 1m, overlap: hole}
      - {quota: 5, window: 1m, anchor: epoch}
      - {quota: 5, window: 1m, count_refused: yes}
      - {quota: 5, window: 1m, count_refused: "true"}
      - {quota: 5, window: 1m, name: 5}
      - {quota: 5, window: 1m, name: [a]}
      - {quota: 5, window: 1m, burst: 5}
`, `
4:43: algorithm: "sliding-lock" is not an algorithm; did you mean "sliding-log"? (want one of sliding-window, sliding-log, fixed-window, token-bucket, in-flight)
5:41: overlap: "hole" is not an overlap; did you mean "whole"? (want one of up, down, whole)
6:40: anchor: "epoch" is not an anchor (want one of clock, first)
7:47: count_refused: must be true or false, not "yes"
8:47: count_refused: must be true or false, not "true"
9:38: name: 5 is not a string; write it in quotes
10:38: name: must be a string, not a list
11:9: invalid limit: burst: 5 applies to token-bucket only; leave it out, or name token-bucket`},
	{"limits shared", "policies:\n  a:\n    limits:\n      - 5/1m sliding-window\n      - 6/1h\n      - quota: 7\n        window: 60s\n        overlap: whole\n      - 7/1m name=b\n      - 8/1m name=b\n      - 5/1m anchor=first\n", `
6:9: the limit "7/1m overlap=whole" would share its counts with the one on line 4, which has the same name and shape; give it another name
10:9: the limit "8/1m name=\"b\"" would share its counts with the one on line 9, which has the same name and shape; give it another name`},

	{"slots", `policies:
  a:
    limits:
      - 50 in-flight
      - {quota: 50, ttl: 30s}
      - {quota: 50, algorithm: in-flight}
      - {quota: 50, algorithm: in-flight, window: 30s}
      - {quota: 50, algorithm: in-flight, calendar: day}
      - {quota: 50, algorithm: in-flight, ttl: 30}
      - {quota: 50, algorithm: in-flight, ttl: 1us}
      - {quota: 20000, algorithm: in-flight, ttl: 1m}
      - {quota: 5, algorithm: in-flight, ttl: 1m, count_refused: true}
`, `
4:9: invalid limit: ttl: missing; it is how long a slot is held unless it is renewed; write 50 in-flight ttl=30s (in "50 in-flight")
5:21: ttl: applies to in-flight only; add algorithm: in-flight, or write window: instead
6:9: the limit has no ttl; add ttl: 30s, say: how long a slot is held unless it is renewed
7:43: window: an in-flight limit has none; write ttl: and how long a slot is held unless it is renewed
8:43: calendar: an in-flight limit has none; write ttl: and how long a slot is held unless it is renewed
9:48: ttl: "30" has no unit; write a duration such as 30s, 1m, 24h or 7d
10:48: invalid limit: ttl: must be 1ms to 5 years (43920h), not 1us
11:9: invalid limit: quota: an in-flight limit stores every slot, so it must be at most 10000, not 20000
12:9: invalid limit: count_refused: a refused request holds no slot, so it does not apply to in-flight; leave it out`},
	{"calendar", `policies:
  a:
    limits:
      - 5/month zone=Europe/Berln
      - {quota: 5, calendar: fortnight}
      - {quota: 5, calendar: month, window: 1m}
      - {quota: 5, calendar: month, zone: Local}
      - {quota: 5, window: 30s, zone: UTC}
      - {quota: 5, zone: UTC}
      - {quota: 5, calendar: month, algorithm: token-bucket}
      - {quota: 5, calendar: month, zone: [UTC]}
      - {quota: 5, calendar: month, zone: ""}
      - {quota: 5, window: day, zone: ""}
`, `
4:9: invalid limit: zone: "Europe/Berln" is not a time zone such as Europe/Berlin or UTC (in "5/month zone=Europe/Berln")
5:30: calendar: "fortnight" is not a calendar period (want one of day, week, month, year)
6:37: window: cannot be combined with calendar; leave out one of them
7:9: invalid limit: zone: Local differs between machines; name a zone such as Europe/Berlin
8:33: zone: a window of "30s" is a duration, the same in every zone; write calendar: day, week, month or year instead, or leave the zone out
9:9: the limit has no window; add window: 1m, say
10:9: invalid limit: algorithm: calendar windows are fixed-window, not token-bucket; leave the algorithm out
11:43: zone: must be a string, not a list
12:43: zone: is empty; write a time zone such as Europe/Berlin, or leave it out for UTC
13:39: zone: is empty; write a time zone such as Europe/Berlin, or leave it out for UTC`},
	{"holds", "policies:\n  a:\n    limits:\n      - {quota: 5, window: 1m, hold: 5}\n      - {quota: 5, window: 2m, hold: soon}\n      - {quota: 5, window: 3m, hold: 0s}\n      - {quota: 5, window: 4m, hold: 1m, lease: true}\n      - 5/5m hold=1m count-refused\n      - {quota: 5, algorithm: in-flight, ttl: 1m, hold: 1m}\n", `
4:38: hold: "5" has no unit; write a duration such as 30s, 1m, 24h or 7d
5:38: invalid limit: hold: "soon" is not a duration such as 30s, 1m, 24h or 7d
6:38: invalid limit: hold: must be 1ms to 5 years (43920h), not 0; leave it out to charge reservations at once
7:9: invalid limit: hold: units of a limit with lease are spent without asking the store, which does not know what they are for; leave one of them out
8:9: invalid limit: hold: a limit with count_refused counts refusals in the window, which could leave no unit to hold; leave one of them out (in "5/5m hold=1m count-refused")
9:9: invalid limit: hold: a slot of an in-flight limit is held for its ttl already; leave one of them out`},
	{"limits of overrides", "policies:\n  a:\n    overrides:\n      - {key: k, limits: [20000/1m sliding-log]}\n      - {key: l, limits: [600/1m, 60/1m]}\n    limits: [60/1m]\n", `
4:27: invalid limit: quota: a sliding-log stores every unit, so it must be at most 10000, not 20000; sliding-window with overlap whole gives the same hard cap in constant memory (in "20000/1m sliding-log")
5:35: the limit "60/1m" would share its counts with the one on line 5, which has the same name and shape; give it another name`},

	{"alias", "policies:\n  a:\n    limits: *x\n  b:\n    limits: &x [1/s, 1/s]\n  c:\n    limits: *x\n", `
3:13: no anchor "&x" before this alias
5:22: the limit "1/1s" would share its counts with the one on line 5, which has the same name and shape; give it another name`},
	{"alias of itself", "policies: &p\n  a: *p\n", `
2:3: "a" is not a field of a policy ` + partList + `
2:3: the policy "a" has no limits; write limits: and below it at least one, such as - 100/1m`},
	{"merge", "policies:\n  a: &a\n    limits: [1/s]\n  b:\n    <<: *a\n    limits: [2/s]\n",
		`5:5: merging with << is not supported; write the fields out, or use an alias for a whole value`},
	{"tag", "policies:\n  a:\n    key: !!str user\n    limits: [1/s]\n", `3:10: tags such as "!!str" are not supported; leave it out`},
	{"question mark", "policies:\n  ? a\n  : limits: [1/s]\n", `2:3: a name must be a plain word before its colon, without ?, &, * and !`},
	{"many", "policies:\n  a:\n    a: 1\n    b: 1\n    d: 1\n    e: 1\n    f: 1\n    g: 1\n    h: 1\n    i: 1\n    j: 1\n    k: 1\n    l: 1\n    limits: [1/s]\n", `
3:5: "a" is not a field of a policy ` + partList + `
4:5: "b" is not a field of a policy ` + partList + `
5:5: "d" is not a field of a policy ` + partList + `
6:5: "e" is not a field of a policy ` + partList + `
7:5: "f" is not a field of a policy ` + partList + `
8:5: "g" is not a field of a policy ` + partList + `
9:5: "h" is not a field of a policy ` + partList + `
10:5: "i" is not a field of a policy ` + partList + `
11:5: "j" is not a field of a policy ` + partList + `
12:5: "k" is not a field of a policy ` + partList + `
 and 1 more problems`},
}

func TestBadFiles(t *testing.T) {
	for _, test := range slices.Concat(badFiles, badServiceFiles, badRouteFiles, badPlanFiles, badJWTFiles) {
		t.Run(test.name, func(t *testing.T) {
			want := strings.Split(strings.TrimPrefix(test.want, "\n"), "\n")
			file, err := Parse("f.yaml", []byte(test.text))
			if err == nil {
				t.Fatalf("%s\ngot %+v, want an error", test.text, file)
			}
			if file != nil {
				t.Error("got a file with the error, want nil")
			}
			got := strings.Split(err.Error(), "\n")
			for i := range max(len(got), len(want)) {
				switch {
				case i >= len(got):
					t.Errorf("missing: f.yaml:%s", want[i])
				case i >= len(want):
					t.Errorf("unexpected: %s", got[i])
				case got[i] != "f.yaml:"+want[i]:
					t.Errorf("got  %s\nwant f.yaml:%s", got[i], want[i])
				}
			}
		})
	}
}

func TestErrorsWrapThoseOfSlidegate(t *testing.T) {
	_, err := Parse("f", []byte("policies: {a: {limits: [{quota: 5, window: 1m, burst: 5}]}}"))
	if !errors.Is(err, slidegate.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
}
