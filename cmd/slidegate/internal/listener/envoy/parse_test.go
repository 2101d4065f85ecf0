package envoy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

const head = "domain: d\ndescriptors:\n- key: k\n" // three lines; a field of the descriptor follows in line 4, column 3

var wrongFiles = []struct {
	name, text, want string
}{
	{"empty", "", "f.yaml:1:1: the file is empty"},
	{"comments", "# nothing\n", "f.yaml:1:1: the file is empty"},
	{"not YAML", "domain: [", "f.yaml:1:9: invalid YAML"},
	{"not UTF-8", "domain: \xff", "f.yaml:1:9: the file is not UTF-8"},
	{"a list", "- domain: d", "f.yaml:1:1: the file must be a mapping"},
	{"two documents", "domain: d\n---\ndomain: e\n", "f.yaml:2:1: a second document begins; a file has one domain"},
	{"no domain", "descriptors: [{key: k}]", "f.yaml:1:1: the file has no domain"},
	{"empty domain", "domain:\ndescriptors: []", "f.yaml:1:1: the file has no domain"},
	{"unknown in the file", "domain: d\ndescriptor: []", `f.yaml:2:1: "descriptor" is not a field of the file; did you mean "descriptors"?`},
	{"unknown in a descriptor", head + "  ratelimit: {}", `f.yaml:4:3: "ratelimit" is not a field of a descriptor; did you mean "rate_limit"?`},
	{"unknown in a rate_limit", head + "  rate_limit:\n    unit: day\n    request_per_unit: 5", `f.yaml:6:5: "request_per_unit" is not a field of a rate_limit; did you mean "requests_per_unit"?`},
	{"unknown in replaces", head + "  rate_limit: {unit: day, requests_per_unit: 1, replaces: [{nam: x}]}", `f.yaml:4:61: "nam" is not a field of replaces; did you mean "name"? (want name)`},
	{"unknown unit", head + "  rate_limit: {unit: minutes, requests_per_unit: 5}", `f.yaml:4:22: unit: "minutes" is not a unit; did you mean "minute"? (want one of second, minute, hour, day, week, month, year)`},
	{"unit unknown", head + "  rate_limit: {unit: unknown, requests_per_unit: 5}", `unit: "unknown" is not a unit`},
	{"no unit", head + "  rate_limit: {requests_per_unit: 5}", "f.yaml:4:3: the rate_limit has no unit"},
	{"no requests_per_unit", head + "  rate_limit: {unit: day}", "f.yaml:4:3: the rate_limit has no requests_per_unit"},
	{"no rate_limit after all", head + "  rate_limit:", `f.yaml:4:3: "rate_limit" has no value`},
	{"a rate_limit that is a list", head + "  rate_limit: []", "f.yaml:4:15: rate_limit: must be a mapping"},
	{"unlimited with a unit", head + "  rate_limit: {unlimited: true, unit: day}", "f.yaml:4:33: unit: has no effect when unlimited"},
	{"a text for a number", head + `  rate_limit: {unit: day, requests_per_unit: "5"}`, `f.yaml:4:46: requests_per_unit: must be a whole number from 0 to 4294967295, not "5"`},
	{"too large", head + "  rate_limit: {unit: day, requests_per_unit: 4294967296}", "requests_per_unit: must be a whole number"},
	{"negative", head + "  rate_limit: {unit: day, requests_per_unit: -1}", "requests_per_unit: must be a whole number"},
	{"a fraction", head + "  rate_limit: {unit: day, requests_per_unit: 1.5}", "requests_per_unit: must be a whole number"},
	{"a number for true", head + "  shadow_mode: 1", `f.yaml:4:16: shadow_mode: must be true or false, not "1"`},
	{"a text for true", head + "  quota_mode: 'yes'", `quota_mode: must be true or false, not "yes"`},
	{"yep", head + "  quota_mode: yep", "quota_mode: must be true or false"},
	{"a leading 0", head + "  rate_limit: {unit: day, requests_per_unit: 010}", `f.yaml:4:46: requests_per_unit: "010" is octal in YAML 1.1 and decimal in YAML 1.2; write it without the leading 0`},
	{"a leading 0, and 8", head + "  rate_limit: {unit: day, requests_per_unit: 08}", "without the leading 0"},
	{"a leading 0 and an underscore", head + "  rate_limit: {unit: day, requests_per_unit: 0_10}", "without the leading 0"},
	{"a leading 0 of a multiplier", head + "  rate_limit: {unit: day, unit_multiplier: 02, requests_per_unit: 1}", "without the leading 0"},
	{"a leading 0 in metadata", head + "  metadata: {a: [010]}\n  rate_limit: {unit: day, requests_per_unit: 1}", "f.yaml:4:18: metadata: \"010\" is octal"},
	{"null requests_per_unit", head + "  rate_limit: {unit: day, requests_per_unit: null}", "f.yaml:4:3: the rate_limit has no requests_per_unit; write 0 to refuse all"},
	{"a number tagged as text", head + "  rate_limit: {unit: day, requests_per_unit: !!str 5}", "requests_per_unit: must be a whole number"},
	{"a boolean tagged as text", head + "  shadow_mode: !!str yes", "shadow_mode: must be true or false"},
	{"metric", head + "  detailed_metric: maybe", "detailed_metric: must be true or false"},
	{"value to metric", head + "  value_to_metric: maybe", "value_to_metric: must be true or false"},
	{"a list of texts", "domain: d\ndescriptors: [k]", `f.yaml:2:15: descriptors: must be a list of mappings, not of "k"`},
	{"no list", "domain: d\ndescriptors: {key: k}", "f.yaml:2:14: descriptors: must be a list, not a mapping"},
	{"no key", "domain: d\ndescriptors:\n- value: v", "f.yaml:3:3: the descriptor has no key"},
	{"an empty key", "domain: d\ndescriptors:\n- key: ''", "f.yaml:3:3: the descriptor has no key"},
	{"a * in a key", "domain: d\ndescriptors:\n- key: 'a*'", `f.yaml:3:3: key: "a*" contains a *`},
	{"a key that is a list", "domain: d\ndescriptors:\n- key: [a]", "f.yaml:3:8: key: must be a string"},
	{"twice", head + "- key: k\n", "f.yaml:4:3: this descriptor has the same key and value as the one in line 3"},
	{"twice with a value", "domain: d\ndescriptors: [{key: k, value: 'a*'}, {value: 'a*', key: k}]", "has the same key and value as the one in line 2"},
	{"a field twice", head + "  value: a\n  value: b", `f.yaml:5:3: "value" is given twice; the first is on line 4`},
	{"share_threshold without a *", head + "  value: a\n  share_threshold: true", "f.yaml:5:3: share_threshold: is only for values with a *"},
	{"replaces without a name", head + "  rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ''}]}", "replaces: has no name"},
	{"replaces itself", head + "  rate_limit: {unit: day, requests_per_unit: 1, name: me, replaces: [{name: me}]}", `f.yaml:4:59: replaces: "me" is this rate_limit's own name`},
	{"metadata", head + "  metadata: [1]\n  rate_limit: {unit: day, requests_per_unit: 1}", "f.yaml:4:13: metadata: must be a mapping"},
	{"charging", "domain: d\ncharging: al\n", `f.yaml:2:11: charging: "al" is not a way of charging; did you mean "all"? (want one of each, all)`},
	{"algorithm", head + "  rate_limit: {unit: day, requests_per_unit: 1, algorithm: slidng-window}", `algorithm: "slidng-window" is not an algorithm; did you mean "sliding-window"?`},
	{"slots", head + "  rate_limit: {unit: day, requests_per_unit: 1, algorithm: in-flight}", "f.yaml:4:60: algorithm: in-flight is not supported for Envoy"},
	{"a zone of hours", head + "  rate_limit: {unit: hour, requests_per_unit: 1, zone: UTC}", "f.yaml:4:50: zone: is only for the units day, week, month and year"},
	{"a zone of windows", head + "  rate_limit: {window: 24h, requests_per_unit: 1, zone: UTC}", "f.yaml:4:51: zone: a window has the same length"},
	{"a zone of several units", head + "  rate_limit: {unit: month, unit_multiplier: 3, requests_per_unit: 1, zone: UTC}", "f.yaml:4:29: unit_multiplier: a unit of the calendar cannot be multiplied"},
	{"an empty zone", head + "  rate_limit: {unit: month, requests_per_unit: 1, zone: \"\"}", `f.yaml:4:57: zone: is empty`},
	{"a wrong zone", head + "  rate_limit: {unit: month, requests_per_unit: 1, zone: Berlin}", `zone: "Berlin" is not a time zone`},
	{"a zone and an algorithm", head + "  rate_limit: {unit: month, requests_per_unit: 1, zone: UTC, algorithm: sliding-log}", "algorithm: calendar windows are fixed-window"},
	{"an empty word", head + "  rate_limit: {unit: day, requests_per_unit: 1, algorithm: ''}", `f.yaml:4:60: algorithm: "" is not an algorithm`},
	{"overlap", head + "  rate_limit: {unit: day, requests_per_unit: 1, algorithm: sliding-window, overlap: all}", `overlap: "all" is not an overlap`},
	{"anchor", head + "  rate_limit: {unit: day, requests_per_unit: 1, anchor: frist}", `anchor: "frist" is not an anchor; did you mean "first"?`},
	{"segments", head + "  rate_limit: {unit: day, requests_per_unit: 1, algorithm: sliding-window, segments: 65}", "segments: must be a whole number from 1 to 64"},
	{"segments of a fixed window", head + "  rate_limit: {unit: day, requests_per_unit: 1, segments: 6}", "f.yaml:4:3: slidegate: invalid limit: segments"},
	{"burst of a fixed window", head + "  rate_limit: {unit: day, requests_per_unit: 1, burst: 6}", "f.yaml:4:3: slidegate: invalid limit: burst"},
	{"a leased log", head + "  rate_limit: {unit: day, requests_per_unit: 5, algorithm: sliding-log, lease: true}",
		"f.yaml:4:3: slidegate: invalid limit: lease: a sliding-log limit cannot be leased, because it counts every unit from the time of its charge; use sliding-window with segments=60 overlap=whole"},
	{"a lease and count_refused", head + "  rate_limit: {unit: day, requests_per_unit: 5, count_refused: true, lease: true}", "f.yaml:4:3: slidegate: invalid limit: lease: a limit with count_refused"},
	{"a lease and anchor first", head + "  rate_limit: {unit: day, requests_per_unit: 5, anchor: first, lease: true}", "f.yaml:4:3: slidegate: invalid limit: lease: a limit with anchor first"},
	{"a lease of a small bucket", head + "  rate_limit: {unit: second, requests_per_unit: 50, algorithm: token-bucket, burst: 10, lease: true}", "set burst to at least 20"},
	{"a lease that is neither", head + "  rate_limit: {unit: day, requests_per_unit: 5, lease: maybe}", "f.yaml:4:56: lease: "},
	{"a log too large", head + "  rate_limit: {unit: day, requests_per_unit: 10001, algorithm: sliding-log}", "invalid limit: quota"},
	{"unit and window", head + "  rate_limit: {unit: day, window: 2d, requests_per_unit: 1}", "f.yaml:4:27: window: cannot be combined with unit"},
	{"multiplier and window", head + "  rate_limit: {unit_multiplier: 2, window: 2d, requests_per_unit: 1}", "f.yaml:4:16: unit_multiplier: needs a unit"},
	{"multiplier of 0", head + "  rate_limit: {unit: day, unit_multiplier: 0, requests_per_unit: 1}", "unit_multiplier: must be a whole number from 1"},
	{"too long", head + "  rate_limit: {unit: year, unit_multiplier: 4294967295, requests_per_unit: 1}", "invalid limit: window"},
	{"window of what", head + "  rate_limit: {window: 90, requests_per_unit: 1}", `window: "90" is not a length of time`},
	{"window and more", head + "  rate_limit: {window: 1m sliding-log, requests_per_unit: 1}", "is not a length of time"},
	{"window below a second", head + "  rate_limit: {window: 1500ms, requests_per_unit: 1}", "must be a whole number of seconds"},
	{"an alias of nothing", head + "  rate_limit: *x", `f.yaml:4:15: no anchor "&x"`},
	{"a tag", head + "  value: !!int 5", "tags such as"},
	{"a tag of a mapping", head + "  rate_limit: !!map {unit: day, requests_per_unit: 1}", "tags such as"},
	{"null for a rate_limit", head + "  rate_limit: ~", `f.yaml:4:3: "rate_limit" has no value`},
	{"a merge of a text", head + "  <<: x", "<<: must be a mapping"},
	{"too deep", "domain: d\n" + nested(yamlfile.MaxDepth+1), "nested more than 32 deep"},
}

// nested returns descriptors within one another.
func nested(depth int) string {
	text := ""
	for i := range depth {
		text += strings.Repeat(" ", 2*i) + "descriptors:\n" + strings.Repeat(" ", 2*i) + "- key: k\n"
	}
	return text
}

func TestInvalidFiles(t *testing.T) {
	for _, test := range wrongFiles {
		t.Run(test.name, func(t *testing.T) {
			d, err := Parse("f.yaml", []byte(test.text))
			if err == nil || d != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestErrorsWrapErrLimit(t *testing.T) {
	_, err := Parse("f.yaml", []byte(head+"  rate_limit: {unit: day, requests_per_unit: 1, segments: 6}"))
	if !errors.Is(err, slidegate.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	_, err := Parse("f.yaml", []byte("domian: d\ndescriptors:\n"+strings.Repeat("- kye: k\n", 12)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != yamlfile.MaxProblems+1 || !strings.HasPrefix(lines[0], "f.yaml:1:1: ") || !strings.HasPrefix(lines[9], "f.yaml:11:3: ") ||
		!strings.HasSuffix(lines[10], "and 3 more problems") { // the domain is invalid, and the twelve
		t.Errorf("got:\n%v\nwant %d lines: the first about 1:1, the tenth about 11:3, the last \"and 3 more problems\"", err, yamlfile.MaxProblems+1)
	}
}

// TestProblemsAreReportedOnce: a value that cannot be used is not reported as missing too.
func TestProblemsAreReportedOnce(t *testing.T) {
	limit := func(fields string) string { return head + "  rate_limit: {" + fields + "}" }
	for _, test := range []struct{ text, want string }{
		{"domain: *x", `1:9: no anchor "&x" before this alias`},
		{"domain: [d]", "1:9: domain: must be a string, not a list"},
		{"domain: d\ncharging: *x", `2:11: no anchor "&x" before this alias`},
		{"domain: d\ndescriptors: [{key: *x}]", `2:21: no anchor "&x" before this alias`},
		{head + "  rate_limit: *x", `4:15: no anchor "&x" before this alias`},
		{head + "  rate_limit: !!map {}", `4:15: tags such as "!!map" are not supported; leave it out`},
		{limit("unit: *x, requests_per_unit: 1"), `4:22: no anchor "&x" before this alias`},
		{limit("unit: [day], requests_per_unit: 1"), "4:22: unit: must be a string, not a list"},
		{limit("unit: day, requests_per_unit: *x"), `4:46: no anchor "&x" before this alias`},
		{limit("window: *x, requests_per_unit: 1"), `4:24: no anchor "&x" before this alias`},
		{limit("window: [1d], requests_per_unit: 1"), "4:24: window: must be a string, not a list"},
		{limit("unit: day, requests_per_unit: 1, anchor: *x"), `4:57: no anchor "&x" before this alias`},
	} {
		if _, err := Parse("f.yaml", []byte(test.text)); err == nil || err.Error() != "f.yaml:"+test.want {
			t.Errorf("%s:\ngot  %v\nwant f.yaml:%s", test.text, err, test.want)
		}
	}
}

// TestNoErrorHasAPassword puts a password where a URL may be written by mistake.
func TestNoErrorHasAPassword(t *testing.T) {
	const address = "redis://u:hunter2@h"
	for _, text := range []string{
		address, "store: " + address, address + ": d", "domain: d\ncharging: " + address, "domain: d\ndescriptors: " + address,
		"domain: d\ndescriptors: [\"" + address + "\"]", "domain: d\ndescriptors: [{key: \"" + address + "*\"}]", "domain: | " + address,
		head + "  rate_limit: " + address, head + "  shadow_mode: " + address, head + "  <<: " + address,
		head + "  metadata: " + address + "\n  rate_limit: {unlimited: true}", head + "  rate_limit: {unit: \"" + address + "\"}",
		head + "  rate_limit: {requests_per_unit: \"" + address + "\"}", head + "  rate_limit: {window: \"" + address + "\"}",
		head + "  rate_limit: {unlimited: true, name: \"" + address + "\", replaces: [{name: \"" + address + "\"}]}",
	} {
		_, err := Parse("f.yaml", []byte(text))
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: got the error %v, want one without the password", text, err)
		}
	}
}

// The original accepts all of these, odd as some are. The first have all of its fields and units.
func TestFilesOfTheOriginal(t *testing.T) {
	const limited = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 3, unit: "
	for _, text := range []string{
		limited + "second}}]", limited + "minute}}]", limited + "HOUR}}]", limited + "day}}]", limited + "week}}]", limited + "month}}]", limited + "year}}]",
		limited + "day, name: n, replaces: [{name: m}], unlimited: false}}]",
		limited + "day}, value: v*, share_threshold: true, detailed_metric: true, value_to_metric: true, shadow_mode: true, quota_mode: true, metadata: {a: b}," +
			" descriptors: [{key: l}]}]",
		"domain: d",
		"domain: d\ndescriptors:",
		"domain: d\ndescriptors: []",
		"domain: 5\ndescriptors: [{key: 7, value: 8}]",
		"domain: d\ndescriptors: [{key: k, value: , descriptors: , shadow_mode: }]",
		"domain: d\ndescriptors: [{key: k, value: true, rate_limit: {unlimited: true, requests_per_unit: 3}}]",
		"---\ndomain: d\n...\n",
		"\ufeffdomain: d\n",
		"domain: d\n" + nested(yamlfile.MaxDepth),
	} {
		if _, err := Parse("f.yaml", []byte(text)); err != nil {
			t.Errorf("%q is rejected: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range wrongFiles {
		f.Add(test.text)
	}
	for _, test := range rulesTests {
		f.Add(test.file)
	}
	for _, test := range additionsTests {
		f.Add(test.file)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse("f.yaml", []byte(text))
		if (d == nil) == (err == nil) {
			t.Fatalf("got %v and %v", d, err)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Fatalf("an error without its place: %v", err)
			}
			return
		}
		if _, err := New(newStore(t), []*Domain{d}, Options{}); err != nil {
			t.Fatalf("parsed, but not accepted by New: %v", err)
		}
	})
}

// A file that never ends, such as a device or a pipe, must not exhaust the memory.
func TestLoadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endless.yaml")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<40), f.Close()); err != nil { // a sparse file: nothing is written
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasSuffix(err.Error(), "endless.yaml:1:1: the file is larger than 8 MB") {
		t.Error(err)
	}
	if _, err := Load(path + "x"); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "envoy: ") {
		t.Error(err)
	}
}
