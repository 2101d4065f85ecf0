package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/config"
)

// A file that serve rejects is rejected by check too, with the same message and position. The line begins with the file name, so that
// editors find it.
func TestConfigCheckRejectsWhatServeRejects(t *testing.T) {
	var forty []string
	for i := range 40 {
		forty = append(forty, fmt.Sprintf("1/%ds", i+1))
	}
	many := "[" + strings.Join(forty, ", ") + "]"
	for name, test := range map[string]struct{ text, want string }{
		"a key of logs":         {"policies: {b: {key: '{status}', limits: [10/1m]}}\n", ":1:21: key: {status} is known in recorded traffic only"},
		"a field of JSON":       {"policies:\n  b:\n    key: field:user.id\n    limits: [10/1m]\n", ":3:10: key: {field:user.id} is known"},
		"a cost of logs":        {"policies: {b: {cost: bytes, limits: [10/1m]}}\n", ":1:22: cost: bytes is known in recorded traffic only"},
		"a cost of a field":     {"policies: {b: {cost: 'field:n', limits: [10/1m]}}\n", ":1:22: cost: field:n is known"},
		"too many at once":      {"policies:\n  a: {limits: " + many + "}\n  b: {match: /, limits: " + many + "}\n", ": policies"},
		"a parameter of memory": {"store: 'memory:?max_bytes=few'\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: store: max_bytes"},
		"a parameter of Redis":  {"store: redis://127.0.0.1:1?prefx=a\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: store: "},
		"a database":            {"store: redis+cluster://127.0.0.1:1/3\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: store: a cluster has only database 0"},
		"no port":               {"envoy: {xds: {address: localhost}}\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: envoy: xds: address: \"localhost\" is not HOST:PORT"},
		"a cert without a key":  {"envoy: {xds: {address: 'h:1', cert: c.pem}}\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: envoy: xds: key: is missing"},
		"no authority":          {"envoy: {xds: {address: 'h:1', ca: no-such.pem}}\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: envoy: xds: ca: open "},
		"no keys":               {"jwt: {keys: /no/such.json}\npolicies: {b: {limits: [10/1m]}}\n", ":1:13: keys: the file \"/no/such.json\": no such file"},
		"no rules":              {"envoy: {files: [no-such.yaml]}\npolicies: {b: {limits: [10/1m]}}\n", ":1:8: envoy: open "},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "f.yaml", []byte(test.text))
			checked := callConfig(t, "check", path)
			if checked.status != exitFailure || !strings.HasPrefix(checked.err, path) || !strings.Contains(checked.err, test.want) {
				t.Fatalf("check: got status %d, %q, want %s%s", checked.status, checked.err, path, test.want)
			}
			served := callBriefly(t, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--config", path)
			if _, last, _ := strings.Cut("\n"+served.err, "\n"+path); served.status != exitFailure || path+last != checked.err {
				t.Errorf("serve: got\n%s, check: got\n%s, want the same", served.err, checked.err)
			}
		})
	}
}

// For random files, check and the service return the same errors.
func TestConfigCheckAgreesWithServe(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		var b strings.Builder
		b.WriteString(draw("store", "", "", "store: 'memory:'\n", "store: 'memory:?max_keys=9'\n", "store: 'memory:?max=1'\n", "store: 'memory:?max_bytes=1MiB'\n"))
		b.WriteString(draw("failure", "", "", "failure: closed\n", "failure: never\n"))
		b.WriteString(draw("default", "", "", "default_policy: a\n", "default_policy: nobody\n"))
		b.WriteString("policies:\n")
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "policies")] {
			b.WriteString("  " + name + ":\n")
			b.WriteString("    limits: " + draw("limits", "[1/1s]", "[1/1s, 2/1m]", "[1/1s, 2/2s, 3/3s, 4/4s, 5/5s, 6/6s]", "[1/1s, 1/1s]", "[0/1s]", "[20000/1m sliding-log]") + "\n")
			b.WriteString(draw("key", "", "    key: address\n", "    key: '{status}'\n", "    key: '{field:a} {path}'\n", "    key: '{headers:X}'\n", "    key: header:X\n"))
			b.WriteString(draw("cost", "", "", "    cost: 2\n", "    cost: bytes\n", "    cost: field:n\n"))
			b.WriteString(draw("match", "", "    match: /a/\n", "    match: /a/*\n", "    match: POST /a/b\n", "    match: get /\n"))
		}
		path := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		checked, served := checkErr(path), serveErr(path)
		if checked != served {
			t.Fatalf("check: got\n%s\nservice: got\n%s\nwant the same for\n%s", checked, served, b.String())
		}
	})
}

func checkErr(path string) string {
	c := &console{in: strings.NewReader(""), out: new(strings.Builder), err: new(strings.Builder)}
	return c.errorText((&configCheckCommand{Files: []string{path}, For: "serve"}).Run(context.Background(), c))
}

func serveErr(path string) string {
	c := &console{}
	file, err := config.Load(config.Options{}, path)
	if err == nil {
		var s *service.Server
		if s, err = service.New(context.Background(), service.Options{File: file, Paths: []string{path}, HTTP: "127.0.0.1:0"}); err == nil {
			ended, end := context.WithCancel(context.Background())
			end()
			err = s.Run(ended)
		}
	}
	return c.errorText(err)
}

// errorText returns the message of an error, or "" for nil.
func (c *console) errorText(err error) string {
	if err == nil {
		return ""
	}
	return c.message(err)
}

// Checks and replays need no password, because they do not connect to the store.
func TestConfigCheckNeedsNoPassword(t *testing.T) {
	log := accessLog(t, "203.0.113.7 GET /")
	for _, text := range []string{
		"store: redis://:${NO_SUCH_VARIABLE}@localhost:6379\n", "store: ${NO_SUCH_VARIABLE}\n", "store: redis://${NO_SUCH_VARIABLE}:${NO_SUCH_PORT}/1\n",
		"store: postgres://u:${NO_SUCH_VARIABLE}@db/limits\n", "store: redis://h/${NO_SUCH_VARIABLE}\n", "store: redis://h?dial_timeout=${NO_SUCH_VARIABLE}\n",
		"store: redis+cluster://h1,h2/${NO_SUCH_VARIABLE}\n", "store: redis://:${file:/no/such/NO_SUCH_VARIABLE}@localhost:6379\n",
		"store: ${file:/no/such/NO_SUCH_VARIABLE}\n",
	} {
		path := write(t, "f.yaml", []byte(text+"policies: {api: {limits: [1/1h]}}\n"))
		for _, args := range [][]string{{"check", path}, {"check", "--for", "replay", path}, {"check", "--for", "proxy", path}, {"print", path}} {
			if r := callConfig(t, args...); r.status != exitOK {
				t.Errorf("%s: config %v: got status %d, %s, want success", text, args, r.status, r.err)
			}
		}
		if r := call(t, "replay", "--config", path, log); r.status != exitOK {
			t.Errorf("%s: replay: got status %d, %s, want success", text, r.status, r.err)
		}
		if r := callBriefly(t, "serve", "--config", path); r.status != exitFailure || !strings.Contains(r.err, "NO_SUCH_VARIABLE") {
			t.Errorf("%s: serve: got status %d, %s, want an error about the variable", text, r.status, r.err)
		}
	}
	for text, want := range map[string]string{
		"store: rdis://:${NO_SUCH_VARIABLE}@h\n":                        `did you mean "redis"`,
		"store: redis://:${NO_SUCH_VARIABLE}@\n":                        "no host",
		"store: redis://:${NO_SUCH_VARIABLE\n":                          "${",
		"store: redis://:${NO_SUCH_VARIABLE}@localhost:6379?prefx=a\n":  "prefix",
		"store: redis://:${NO_SUCH_VARIABLE}@localhost:6379?pro${X}=\n": "",
	} {
		if r := callConfig(t, "check", write(t, "f.yaml", []byte(text+"policies: {api: {limits: [1/1h]}}\n"))); want != "" && (r.status != exitFailure || !strings.Contains(r.err, want)) {
			t.Errorf("%s: got status %d, %s, want %s", text, r.status, r.err, want)
		}
	}
}

func TestConfigCheckStandardInput(t *testing.T) {
	if r := callConfigIn(t, strings.NewReader(onePolicy), "check", "-"); r.status != exitOK || r.out != "<stdin>: ok, 1 policy, 1 limit\n" {
		t.Errorf("check: got status %d, %q, %q, want a summary of <stdin>", r.status, r.out, r.err)
	}
	if r := callConfigIn(t, strings.NewReader(badPolicies), "check", "-"); r.status != exitFailure || !strings.HasPrefix(r.err, "<stdin>:3:5: ") {
		t.Errorf("check: got status %d, %q, want an error at <stdin>:3:5", r.status, r.err)
	}
	if r := callConfigIn(t, strings.NewReader(onePolicy), "print", "-"); r.status != exitOK || !strings.Contains(r.out, "100/1m") {
		t.Errorf("print: got status %d, %q, want the limit 100/1m", r.status, r.err)
	}
}

// Files of Envoy rules are recognized by their fields, and folders are read as serve reads them.
func TestConfigCheckEnvoy(t *testing.T) {
	const rules = "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: minute, requests_per_unit: 5}\n"
	folder := t.TempDir()
	for name, text := range map[string]string{"a.yaml": rules, "b.yml": strings.Replace(rules, "domain: d", "domain: e", 1), "notes.txt": "x: [", ".hidden.yaml": "x: ["} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := filepath.Join(folder, "a.yaml")
	bad := write(t, "bad.yaml", []byte(strings.Replace(rules, "minute", "fortnight", 1)))
	for _, test := range []struct {
		args []string
		want string // on standard output, or, if it begins with !, in the errors
	}{
		{[]string{a}, a + ": ok, domain \"d\"\n"},
		{[]string{folder}, "domain \"e\"\n"},
		{[]string{"--envoy", folder}, folder + ": ok, 2 domains\n"},
		{[]string{bad}, "!" + bad + ":4:"},
		{[]string{"--envoy", bad}, "!" + bad + ":4:"},
		{[]string{"--envoy", a, "--envoy", folder}, "!has a rate_limit here and in"},
		{[]string{"--envoy", t.TempDir()}, "!.yaml or .yml"},
		{[]string{t.TempDir()}, "!.yaml or .yml"},
		{[]string{"--envoy", "no-such.yaml"}, "!no-such.yaml"},
	} {
		r := callConfig(t, append([]string{"check"}, test.args...)...)
		want, failing := strings.CutPrefix(test.want, "!")
		if failing && (r.status != exitFailure || !strings.Contains(r.err, want)) || !failing && (r.status != exitOK || !strings.Contains(r.out, want)) {
			t.Errorf("%v: got status %d, %q, %q, want %q", test.args, r.status, r.out, r.err, test.want)
		}
	}
}
