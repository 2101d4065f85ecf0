package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// goodFiles returns all files in testdata, and sets the environment variables that they need.
func goodFiles(t testing.TB) map[string][]byte {
	t.Helper()
	if err := os.Setenv("SLIDEGATE_TEST_PASSWORD", "hunter2"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Unsetenv("SLIDEGATE_TEST_PASSWORD") })
	paths, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("the files in testdata: %q, %v", paths, err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestService(t *testing.T) {
	t.Setenv("SLIDEGATE_TEST_PASSWORD", "hunter2")
	got, err := Load(Options{}, filepath.Join("testdata", "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	minute := func(quota int64) slidegate.Limit { return slidegate.Limit{Quota: quota, Window: time.Minute} }
	hour := slidegate.Limit{Quota: 1000, Window: time.Hour}
	address := fields.Default
	want := &File{
		Service: Service{
			Store:          "rediss+cluster://slidegate:hunter2@redis-1:6379,[2001:db8::1]:6379/0?client_name=a",
			StoreTimeout:   50 * time.Millisecond,
			Failure:        store.FailLocal,
			TrustedProxies: prefixes("10.0.0.0/8", "::1/128", "192.0.2.1/32", "198.51.100.0/24"),
			AddressGroups:  clientip.Grouping{V6: 56},
			Default:        "api",
		},
		Policies: []Policy{{
			Name: "login", Key: address, Match: Routes("POST /login"), Limits: []slidegate.Limit{minute(5)},
			Block:   policy.List{Addresses: prefixes("203.0.113.0/24", "2001:db8::/32"), Keys: []string{"mallory", "bot-*"}},
			Failure: store.FailClosed,
		}, {
			Name: "api", Key: mustTemplate(t, "header:X-Api-Key"), Limits: []slidegate.Limit{minute(100), hour},
			Overrides: []policy.Override{
				{Key: "alice", Limits: []slidegate.Limit{minute(200)}},
				{Key: "12345", Unlimited: true},
				{Key: "team-*", Pattern: true,
					Limits: []slidegate.Limit{{Quota: 1000, Window: time.Minute, Overlap: slidegate.OverlapWhole}}},
			},
			Allow:  policy.List{Addresses: prefixes("127.0.0.1/32"), Keys: []string{"health"}},
			Shadow: true,
		}, {
			Name: "export", Key: address, Match: Routes("GET example.com/export/{id}"), Cost: mustCost(t, "bytes"),
			Limits: []slidegate.Limit{minute(100), hour},
		}},
	}
	got.places = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Policies[0].Allow.IsZero() != true || got.Policies[0].Block.IsZero() || got.Policies[1].Allow.IsZero() {
		t.Error("IsZero reports a list with clients as empty")
	}
}

// TestServiceAccepts has valid lines before a policy, or in one.
func TestServiceAccepts(t *testing.T) {
	for _, line := range []string{
		"store_timeout: 1ms", "store_timeout: 1m", "store_timeout: 60s", "store_timeout: 1.5s",
		"failure: open", "failure: closed", "trusted_proxies: []", "trusted_proxies: [loopback, 10.0.0.0/8]", "address_groups: {}", "address_groups: {ipv4: 1, ipv6: 128}", "trusted_proxies: [\"::/1\", 0.0.0.0/1]",
		"default_policy: a", "default_policy: \"a\"",
	} {
		if _, err := Parse("f", []byte(line+"\npolicies: {a: {limits: [1/s]}}\n")); err != nil {
			t.Errorf("%s is rejected: %v", line, err)
		}
	}
	for _, line := range []string{
		"match: /", "match: /{$}", "match: PURGE /x", "match: example.com/", "match: GET /a/{b...}",
		"allow: [0.0.0.0/0, \"::/0\"]", "allow: [key:a*b, \"key:= \", \"key:key:\", ::1]", "block: [key:a, key:a]",
		"overrides: [{key: \"\", unlimited: true}]",
		"overrides: [{keys: a*, unlimited: true}, {keys: \"*a\", unlimited: true}, {key: b, unlimited: true}, {keys: \"*\", limits: [1/s]}]",
		"overrides: [{key: ab, limits: [1/s]}, {keys: a*, limits: [1/s]}, {key: ba, limits: [1/s]}]",
		"overrides: [{keys: a*b, limits: [1/s]}, {keys: a*, limits: [1/s]}, {keys: \"*b\", limits: [1/s]}]",
	} {
		if _, err := Parse("f", []byte("policies:\n  a:\n    limits: [1/s]\n    "+line+"\n")); err != nil {
			t.Errorf("%s is rejected: %v", line, err)
		}
	}
}

// TestSameMatch has two policies for the same requests, to which both apply.
func TestSameMatch(t *testing.T) {
	_, err := Parse("f", []byte("policies: {a: {match: GET /, limits: [1/s]}, b: {match: GET /, limits: [1/s]}}"))
	if err != nil {
		t.Error(err)
	}
}

func TestDefaultPolicy(t *testing.T) {
	policies := func(names ...string) (all []Policy) {
		for _, name := range names {
			all = append(all, Policy{Name: name})
		}
		return all
	}
	for _, test := range []struct {
		file      File
		want, err string
	}{
		{File{Policies: policies("a", "b"), Service: Service{Default: "b"}}, "b", ""},
		{File{Policies: policies("a", "default")}, "default", ""},
		{File{Policies: policies("a", "default"), Service: Service{Default: "a"}}, "a", ""},
		{File{Policies: policies("a")}, "a", ""},
		{File{Policies: policies("a", "b")}, "", "config: policy: the file has several policies; name one (want one of a, b)"},
		{File{Policies: policies("aa", "bb"), Service: Service{Default: "ab"}}, "",
			`config: policy: "ab" is not a policy; did you mean "aa"? (want one of aa, bb)`},
	} {
		p, err := test.file.Policy("")
		switch {
		case test.err == "" && (err != nil || p.Name != test.want):
			t.Errorf("default of %+v: got %v, %v, want %s", test.file, p, err, test.want)
		case test.err != "" && (err == nil || err.Error() != test.err):
			t.Errorf("default of %+v: got %v, want %s", test.file, err, test.err)
		}
	}
}

// TestManyPatterns has the maximum number of patterns, and one more.
func TestManyPatterns(t *testing.T) {
	for _, test := range []struct{ before, format, want string }{
		{"    overrides:\n", "    - {keys: \"%d-*\", unlimited: true}\n", "keys: at most 1000 patterns"},
		{"    block:\n", "    - \"key:%d-*\"\n", "block: at most 1000 patterns"},
	} {
		before := "policies:\n  a:\n    limits: [1/s]\n" + test.before
		if _, err := Parse("f", []byte(manyLines(before, test.format, 1000))); err != nil {
			t.Errorf("1000 patterns: %v", err)
		}
		_, err := Parse("f", []byte(manyLines(before, test.format, 1001)))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "f:1005:") {
			t.Errorf("1001 patterns: got %v, want f:1005: and %s", err, test.want)
		}
	}
}

// manyLines are numbered lines, up to the size of the largest file or until there are n.
func manyLines(before, format string, n int) string {
	var b strings.Builder
	b.WriteString(before)
	for i := range n {
		line := fmt.Sprintf(format, i)
		if b.Len()+len(line) > yamlfile.MaxSize {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
