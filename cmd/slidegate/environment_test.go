package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// parseArgs parses a command line with the current environment.
func parseArgs(t *testing.T, args ...string) (*commands, *kong.Node) {
	t.Helper()
	all := &commands{}
	parser, err := kong.New(all, kong.Name("slidegate"), kong.Vars(helpVars()), readEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	splitLines(parsed.Selected())
	return all, parsed.Selected()
}

// Every flag of serve and proxy can be set by a variable, even a required one; a flag takes precedence over its variable, and an empty
// variable sets nothing.
func TestFlagsFromTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"SLIDEGATE_HTTP": "", "SLIDEGATE_GRPC": "off", "SLIDEGATE_DRAIN": "3s", "SLIDEGATE_TLS_CERT": "/cert", "SLIDEGATE_IPV6_PREFIX": "56",
		"SLIDEGATE_LIMIT": "100/1m\n20/1s token-bucket burst=40", "SLIDEGATE_ENVOY_SHADOW": "true", "SLIDEGATE_MAX_CONNECTIONS": "7",
		"SLIDEGATE_TO": "http://localhost:3000", "SLIDEGATE_ALLOWED_HOSTS": "a,b", "SLIDEGATE_LOG_FORMAT": "json",
	} {
		t.Setenv(name, value)
	}
	all, _ := parseArgs(t, "serve", "--max-connections", "9")
	s := all.Serve
	if s.HTTP != "127.0.0.1:8080" || s.GRPC != "off" || s.Drain.String() != "3s" || s.TLS.Cert != "/cert" || s.V6 == nil || *s.V6 != 56 ||
		!s.EnvoyShadow || s.MaxConnections != 9 || s.LogFormat != "json" {
		t.Errorf("got %+v", s)
	}
	if len(s.Limit) != 2 || s.Limit[1] != "20/1s token-bucket burst=40" || len(s.AllowedHosts) != 2 {
		t.Errorf("lists: got %q and %q", s.Limit, s.AllowedHosts)
	}
	if all, _ := parseArgs(t, "serve", "--limit", "5/1m"); len(all.Serve.Limit) != 1 || all.Serve.Limit[0] != "5/1m" {
		t.Errorf("flag and variable: got %q, want the flag", all.Serve.Limit)
	}
	if all, _ := parseArgs(t, "proxy"); all.Proxy.To != "http://localhost:3000" || all.Proxy.MaxConnections != 7 {
		t.Errorf("got %+v", all.Proxy)
	}
	if all, _ := parseArgs(t, "replay", "x.log"); len(all.Replay.Limit) != 0 {
		t.Errorf("replay: got the limit %q from the environment, want none", all.Replay.Limit)
	}
}

// Every flag has a variable, which the help names.
func TestEveryFlagHasAVariable(t *testing.T) {
	for _, command := range environmentCommands {
		help := mustCall(t, "help", command, "all")
		t.Setenv("SLIDEGATE_TO", "http://localhost:3000") // required by proxy
		_, node := parseArgs(t, command)
		for _, flag := range node.Flags {
			want := "$" + variableName(flag.Name)
			if flag.Name == "help" {
				continue
			}
			if !strings.Contains(strings.Join(strings.Fields(help), " "), want) {
				t.Errorf("help of %s: %s is missing", command, want)
			}
		}
	}
	if r := call(t, "help", "serve", "all"); strings.Contains(r.out, "SLIDEGATE_HELP") {
		t.Error("got a variable for --help, want none")
	}
}

func TestWarnsOfUnknownVariables(t *testing.T) {
	_, node := parseArgs(t, "serve")
	path := write(t, "f.yaml", []byte("store: redis://:${SLIDEGATE_REDIS_PASSWORD}@h\npolicies: {a: {limits: [1/s]}}\n"))
	var out bytes.Buffer
	c := &console{node: node}
	c.warnUnknownVariables(slog.New(slog.NewTextHandler(&out, nil)), []string{
		"SLIDEGATE_LIMITS=1/s", "SLIDEGATE_ROUTE=/a=1/s", "SLIDEGATE_LIMIT=1/s", "SLIDEGATE_TOKENS=hunter2", "SLIDEGATE_ADMIN_TOKENS=ann:operator:hunter2", "SLIDEGATE_REDIS_PASSWORD=hunter2", "PATH=/bin",
		"SLIDEGATE_SERVICE_HOST=10.0.0.1", "SLIDEGATE_SERVICE_PORT=80", "SLIDEGATE_SERVICE_PORT_HTTP=80", "SLIDEGATE_PORT=tcp://10.0.0.1:80",
		"SLIDEGATE_PORT_8080_TCP=tcp://10.0.0.1:8080", "SLIDEGATE_PORT_8080_TCP_ADDR=10.0.0.1", "SLIDEGATE_REDIS_SERVICE_HOST=10.0.0.2",
	}, []string{path})
	got := out.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `variable=SLIDEGATE_LIMITS hint="did you mean SLIDEGATE_LIMIT?"`) ||
		!strings.Contains(got, `variable=SLIDEGATE_ROUTE hint="slidegate help serve all lists all variables"`) || strings.Contains(got, "hunter2") {
		t.Errorf("got\n%s\nwant warnings about SLIDEGATE_LIMITS and SLIDEGATE_ROUTE only", got)
	}
}
