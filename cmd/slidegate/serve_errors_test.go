package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Errors are short messages that name the flag and the fix, never contain a password, and end the program with exit status 2.
func TestServeWrongFlags(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKENS", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	bad := write(t, "bad.yaml", []byte("policies:\n  api:\n    limits: [100/1m]\n    failure: opne\n"))
	secret := write(t, "secret.yaml", []byte("store: redis://u:hunter2@host:bad\npolicies: {api: {limits: [1/1m]}}\n"))
	good := write(t, "good.yaml", []byte("policies: {api: {limits: [1/1m]}}\n"))
	leased := write(t, "leased.yaml", []byte("policies:\n  api:\n    lease: true\n    limits: [100/1s]\n"))
	rule := write(t, "rule.yaml", []byte("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding-log, lease: true}}\n"))
	status := write(t, "status.yaml", []byte("policies: {api: {key: '{status}', limits: [1/1m]}}\n"))
	withEnvoy := func(text string) string {
		return write(t, "envoy.yaml", []byte("policies: {api: {limits: [1/1m]}}\nenvoy: "+text+"\n"))
	}
	noRules, port, ca := withEnvoy("{files: [no-such.yaml]}"), withEnvoy("{xds: {address: '18000'}}"), withEnvoy("{xds: {address: 'h:1', ca: no-such.pem}}")
	key, cert := withEnvoy("{xds: {address: 'h:1', key: x}}"), withEnvoy("{xds: {address: 'h:1', cert: x}}")
	for _, test := range []struct {
		args string
		want []string
	}{
		{"--config " + noRules, []string{noRules + ":2:8: envoy: ", "no-such.yaml"}},
		{"--config " + port, []string{port + ":2:8: envoy: xds: address: ", "HOST:PORT"}},
		{"--config " + ca, []string{ca + ":2:8: envoy: xds: ca: ", "no-such.pem"}},
		{"--config " + key, []string{key + ":2:8: envoy: xds: cert: is missing"}},
		{"--config " + cert, []string{cert + ":2:8: envoy: xds: key: is missing"}},
		{"--config " + status, []string{status + `:1:23: key: {status} is known in recorded traffic only`}},
		{"--limt 1/1m", []string{"--limt", "--limit", "slidegate serve --help"}},
		{"--limit 100", []string{"--limit", "100/1m"}},
		{"--limit 100/1m --limit 5/fortnight", []string{"--limit", "fortnight"}},
		{"--config " + leased, []string{leased + ":4:14: ", "segments=4 overlap=whole", "lease: true on line 3"}},
		{"--envoy " + rule, []string{rule + ":3:12: ", "segments=60 overlap=whole"}},
		{"--config " + good + " --limit 1/1m", []string{"--config", "leave out --limit"}},
		{"--config " + good + " --store memory:", []string{"--config", "leave out --limit, --store"}},
		{"--config no-such.yaml", []string{"--config", "no-such.yaml"}},
		{"--config " + t.TempDir(), []string{"--config", "the folder has no file that ends in .yaml or .yml"}},
		{"--config " + bad, []string{bad + ":4:14: ", `did you mean "open"`}},
		{"--config " + secret, []string{secret + ":1:8: store: ", "host"}},
		{"--http " + taken.Addr().String(), []string{"--http", "already", "give another address, or off"}},
		{"--resp " + taken.Addr().String(), []string{"--resp", "already", "give another address, or off"}},
		{"--http localhost", []string{"--http", "missing port"}},
		{"--http 127.0.0.1:99999", []string{"--http", "99999"}},
		{"--http off --grpc off --resp off --admin off", []string{"--http", "no listener is configured", "give at least one address"}},
		{"--admin 0.0.0.0:0", []string{"--admin", "tokens", "127.0.0.1"}},
		{"--store rdis://u:hunter2@host", []string{"--store", `did you mean "redis"`}},
		{"--store ftp://u:hunter2@host", []string{"--store", "postgres"}},
		{"--store redis://u:hunter2@host:port", []string{"--store"}},
		{"--store redis://u:hun/ter2@host", []string{"--store", "percent-encode"}},
		{"--store redis://u:hunter2@host?prefx=a", []string{"--store", "prefix"}},
		{"--store memory:?max_bytes=few", []string{"--store", "max_bytes"}},
		{"--store redis://127.0.0.1:1 --state x", []string{"--state", "memory"}},
		{"--state=", []string{"--state: the path is empty"}},
		{"--state " + filepath.Dir(good), []string{"--state", "files of something else", "empty"}},
		{"--state x --reuse-port", []string{"--state", "leave out --reuse-port or --state"}},
		{"--state-degree synced", []string{"--state-degree", "give --state DIR"}},
		{"--envoy " + t.TempDir(), []string{"--envoy", ".yaml"}},
		{"--envoy no-such.yaml", []string{"--envoy", "no-such.yaml"}},
		{"--envoy-headers all", []string{"--envoy-headers", "response", "both"}},
		{"--failure opne", []string{"--failure", `"open"`}},
		{"--tokens-file no-such.txt", []string{"--tokens-file", "no-such.txt"}},
		{"--tokens-file " + write(t, "empty.txt", []byte("# none yet\n\n")), []string{"--tokens-file", "no tokens"}},
		{"--tokens-file " + write(t, "short.txt", []byte("hunter2\n")), []string{"--tokens-file", "at least 16"}},
		{"--tls-cert x.pem", []string{"--tls-key"}},
		{"--tls-key x.pem", []string{"--tls-cert"}},
		{"--tls-cert no-such.pem --tls-key no-such.key", []string{"--tls-cert", "no-such.pem"}},
		{"--tls-client-ca x.pem", []string{"--tls-client-ca", "give a certificate and its key"}},
		{"--envoy no-such.yaml", []string{"--envoy", "no-such.yaml"}},
		{"--envoy " + bad, []string{bad + ":1:1: ", bad}},
		{"--drain 0s", []string{"--drain", "positive"}},
		{"--drain soon", []string{"--drain: must be a duration", "10s", `"soon"`}},
		{"--max-connections=-1", []string{"--max-connections", "positive"}},
		{"--state-degree=often", []string{"--state-degree", "process", "synced"}},
		{"--log-level loud", []string{"--log-level: must be debug, info, warn or error", `"loud"`}},
		{"--log-format xml", []string{"--log-format", "json"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := []string{"serve"}
			for _, flag := range []string{"--http", "--grpc", "--resp", "--admin"} {
				if !strings.Contains(test.args, flag+" ") {
					args = append(args, flag, "127.0.0.1:0")
				}
			}
			r := callBriefly(t, append(args, strings.Fields(test.args)...)...)
			if r.status != exitFailure || r.out != "" {
				t.Errorf("got status %d and the output %q, want a failure without output", r.status, r.out)
			}
			for _, want := range test.want {
				if !strings.Contains(r.err, want) {
					t.Errorf("%q is missing in the message:\n%s", want, r.err)
				}
			}
			inFile := strings.HasPrefix(r.err, test.want[0]) && strings.HasPrefix(test.want[0], "/")
			if !inFile && !strings.HasPrefix(r.err, "slidegate: ") || strings.Count(r.err, "\n") > 3 {
				t.Errorf("got a long message:\n%s", r.err)
			}
			for _, never := range []string{"hunter2", "ter2", "service: ", "open: ", " config: "} {
				if strings.Contains(r.err, never) {
					t.Errorf("got %q in the message:\n%s", never, r.err)
				}
			}
		})
	}
}

// The addresses and commands that are printed at the start can be used as they are, with all flags.
func TestWelcome(t *testing.T) {
	policies := write(t, "policies.yaml", []byte("policies:\n  api: {limits: [1/1m]}\n  web: {limits: [2/1m]}\n"))
	for _, test := range []struct {
		name string
		env  []string
		args []string
		want []string
		not  []string
	}{
		{"several policies", nil, []string{"--config", policies}, []string{"2: api, web", `'{"policy":"api","key":"me"}'`}, nil},
		{"tokens", []string{"SLIDEGATE_TOKENS=0123456789abcdef"}, nil, []string{"-H 'Authorization: Bearer TOKEN'"}, []string{"0123456789abcdef"}},
		{"everywhere", nil, []string{"--http", "0.0.0.0:0"}, []string{"http://localhost:"}, []string{"0.0.0.0", "[::]"}},
		{"password", nil, []string{"--store", "redis://u:hunter2@127.0.0.1:1"}, []string{"store     redis; while it does not answer: local (each instance counts by itself"}, []string{"hunter2"}},
		{"json", nil, []string{"--log-format", "json", "--store", "redis://127.0.0.1:1"}, []string{`{"time":`, `"level":"WARN"`}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startServeWith(t, test.env, test.args...)
			for _, want := range test.want {
				if !s.printed(want) {
					t.Errorf("%q is missing in\n%s", want, s.text())
				}
			}
			for _, not := range test.not {
				if s.printed(not) {
					t.Errorf("got %q in\n%s", not, s.text())
				}
			}
			s.mustEnd(os.Interrupt)
		})
	}
	s := startServe(t)
	for _, listener := range []string{"http", "admin"} {
		if status, text := s.page(listener, "/"); status != http.StatusOK || !strings.Contains(text, "Slidegate") {
			t.Errorf("first page of %s: got %d, %s", listener, status, text)
		}
	}
	s.mustEnd(os.Interrupt)
}
