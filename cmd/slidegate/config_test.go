package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
)

// callConfig runs one of the config commands.
func callConfig(t *testing.T, args ...string) result {
	t.Helper()
	return callConfigIn(t, strings.NewReader(""), args...)
}

// callConfigIn is like callConfig, but with standard input.
func callConfigIn(t *testing.T, in io.Reader, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	c := &console{in: in, out: &out, err: &errs}
	var commands struct {
		Config configCommand `cmd:""`
	}
	parser, err := kong.New(&commands, kong.Name("slidegate"), kong.Vars(helpVars()), kong.Writers(&out, &errs), kong.BindTo(t.Context(), (*context.Context)(nil)), kong.Bind(c))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(append([]string{"config"}, args...))
	if err == nil {
		err = parsed.Run()
	}
	return result{c.finish(err), out.String(), errs.String()}
}

const (
	onePolicy     = "policies: {api: {limits: [100/1m]}}\n"
	threePolicies = "store: redis://u:hunter2@localhost:6379\npolicies:\n  a: {limits: [100/1m, 1000/1h]}\n" +
		"  b: {limits: [1/1s, 2/1m]}\n  c: {limits: [5/1m]}\n"
	badPolicies = "policies:\n  api:\n    limit: [100/1m]\n    failure: opne\n"
)

// Warnings do not make a file invalid.
func TestConfigCheckWarns(t *testing.T) {
	path := write(t, "open.yaml", []byte("policies:\n  api:\n    limits: [100/1m]\n    allow: [0.0.0.0/0]\n"))
	r := callConfig(t, "check", path)
	if want := "warning: " + path + ":4:13: allow: "; r.status != exitOK || r.out != path+": ok, 1 policy, 1 limit\n" || !strings.HasPrefix(r.err, want) {
		t.Errorf("got status %d, %q and %q, want a warning %q", r.status, r.out, r.err, want)
	}
}

func TestConfigCheck(t *testing.T) {
	one, three := write(t, "one.yaml", []byte(onePolicy)), write(t, "three.yaml", []byte(threePolicies))
	bad := write(t, "bad.yaml", []byte(badPolicies))
	r := callConfig(t, "check", "--each", one, three)
	want := one + ": ok, 1 policy, 1 limit\n" + three + ": ok, 3 policies, 5 limits\n"
	if r.status != exitOK || r.out != want || r.err != "" {
		t.Errorf("got status %d, %q, %q, want %q", r.status, r.out, r.err, want)
	}

	r = callConfig(t, "check", "--each", bad, one, "no-such.yaml")
	if r.status != exitFailure || r.out != one+": ok, 1 policy, 1 limit\n" {
		t.Errorf("got status %d, %q, want a failure, and a summary of the valid file", r.status, r.out)
	}
	lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 3:\n%s", len(lines), r.err)
	}
	for i, wants := range [][]string{
		{bad + ":3:5: ", `did you mean "limits"?`},
		{bad + ":4:14: ", `did you mean "open"?`},
		{"slidegate: ", "no-such.yaml"},
	} {
		if !strings.HasPrefix(lines[i], wants[0]) || !strings.Contains(lines[i], wants[1]) {
			t.Errorf("line %d: got %q, want %q", i+1, lines[i], wants)
		}
	}
	if r := callConfig(t, "check"); r.status != exitFailure || !strings.Contains(r.err, "file") {
		t.Errorf("no files: got status %d, %q, want an error", r.status, r.err)
	}
}

// Several files are read as one, as serve reads them; a field that two files set is an error that names both positions.
func TestConfigOfSeveralFiles(t *testing.T) {
	one, three := write(t, "one.yaml", []byte(onePolicy)), write(t, "three.yaml", []byte(threePolicies))
	if r := callConfig(t, "check", one, three); r.status != exitOK || r.out != one+", "+three+": ok, 4 policies, 6 limits\n" {
		t.Errorf("check: got status %d, %q, %q, want 4 policies and 6 limits", r.status, r.out, r.err)
	}
	if r := callConfig(t, "print", one, three); r.status != exitOK || !strings.Contains(r.out, "\n  api:\n") || !strings.Contains(r.out, "\n  c:\n") {
		t.Errorf("print: got status %d, %q, %q, want the policies of both files", r.status, r.out, r.err)
	}
	other := write(t, "other.yaml", []byte("store: 'memory:'\npolicies:\n  b: {key: '{status}', limits: [1/s]}\n"))
	want := other + ":1:1: \"store\" is given twice; the first is at " + three + ":1:1\n" +
		other + ":3:3: the policy \"b\" is given twice; the first is at " + three + ":4:3\n"
	if r := callConfig(t, "check", three, other); r.status != exitFailure || r.err != want {
		t.Errorf("got status %d and\n%s\nwant\n%s", r.status, r.err, want)
	}
	if r := callConfig(t, "check", one, other); r.status != exitFailure || !strings.HasPrefix(r.err, other+":3:12: key: {status} is known in recorded traffic only") {
		t.Errorf("got status %d, %s, want an error about the key", r.status, r.err)
	}
}

// The rules of a folder are checked together, because serve rejects two files of one domain.
func TestConfigCheckOfFolders(t *testing.T) {
	folder := t.TempDir()
	rules := func(name, domain string) {
		text := "domain: " + domain + "\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 3}}\n"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules("1.yaml", "web")
	rules("2.yaml", "shop")
	for _, args := range [][]string{{"check", folder}, {"check", "--envoy", folder}} {
		if r := callConfig(t, args...); r.status != exitOK {
			t.Errorf("%q: two domains: got status %d, %q, want success", args, r.status, r.err)
		}
	}
	rules("2.yaml", "web")
	for _, args := range [][]string{{"check", folder}, {"check", "--envoy", folder}} {
		if r := callConfig(t, args...); r.status != exitFailure || strings.Count(r.err, "has a rate_limit here and in") != 1 {
			t.Errorf("%q: two files of one domain: got status %d, %q, want one error", args, r.status, r.err)
		}
	}
}

func TestConfigPrint(t *testing.T) {
	r := callConfig(t, "print", write(t, "three.yaml", []byte(threePolicies)))
	if r.status != exitOK || strings.Contains(r.out, "hunter2") {
		t.Fatalf("got status %d, %q and\n%s\nwant success without the password", r.status, r.err, r.out)
	}
	for _, want := range []string{`store: "redis://u:***@localhost:6379"`, "store_timeout: 100ms", "  a:", "      - 1000/1h", "# key: not given; \"{address}\""} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%s is missing in\n%s", want, r.out)
		}
	}
	again := callConfig(t, "print", write(t, "again.yaml", []byte(r.out)))
	if again.status != exitOK || again.out != r.out {
		t.Errorf("printed again: got status %d, %q and\n%s\nwant the same output", again.status, again.err, again.out)
	}
	bad := callConfig(t, "print", write(t, "bad.yaml", []byte(badPolicies)))
	if bad.status != exitFailure || bad.out != "" || strings.Count(bad.err, "\n") != 2 {
		t.Errorf("got status %d, %q, %q, want two errors and no output", bad.status, bad.out, bad.err)
	}
}

func TestConfigSchema(t *testing.T) {
	r := callConfig(t, "schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(r.out), &schema); r.status != exitOK || err != nil {
		t.Fatalf("got status %d, %q, %v, want valid JSON", r.status, r.err, err)
	}
	if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("got $schema %v, want draft 2020-12", schema["$schema"])
	}
}

// Policies with in-flight limits are listed, because allow cannot use them, unless the file is for the proxy, which holds slots.
func TestConfigCheckOfSlots(t *testing.T) {
	path := write(t, "slots.yaml", []byte("policies: {api: {limits: [1/1s]}, held: {limits: [5 in-flight ttl=30s]}}\n"))
	r := callConfig(t, "check", path)
	if r.status != exitOK || !strings.HasPrefix(r.out, path+": ok, 2 policies, 2 limits; ") || !strings.HasSuffix(r.out, "SG.ALLOW: held\n") {
		t.Errorf("got status %d, %q, %q; want the policy held", r.status, r.out, r.err)
	}
	others := write(t, "others.yaml", []byte("policies: {plans: {limits: [1/1s], overrides: [{key: a, limits: [5 in-flight ttl=30s]}]}}\n"))
	if r := callConfig(t, "check", others); r.status != exitOK || !strings.HasSuffix(r.out, "SG.ALLOW: plans\n") {
		t.Errorf("got status %d, %q, %q; want the policy plans", r.status, r.out, r.err)
	}
	if r := callConfig(t, "check", "--for", "proxy", path); r.status != exitOK || r.out != path+": ok, 2 policies, 2 limits\n" {
		t.Errorf("for the proxy: got status %d, %q, %q, want no note", r.status, r.out, r.err)
	}
}

// The command that the banner suggests works with the policy.
func TestTryVerb(t *testing.T) {
	for text, want := range map[string]string{"5/1m": "allow", "5 in-flight ttl=30s": "acquire"} {
		if got := tryVerb(&config.Policy{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
