package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/errtext"
)

func TestValidStores(t *testing.T) {
	for _, text := range []string{
		"memory:", "memory://", "memory:?bytes=1000", "memory://?bytes=1000",
		"redis://localhost", "redis://localhost:6379/2", "rediss://:pass@h:1", "rediss://user:p%40ss@h_1.example-2.com:65535",
		"redis+cluster://a:1,b:2,[::1]:3", "rediss+cluster://[2001:db8::1],b", "redis+sentinel://u:p@a:26379,b:26379/mymaster?db=1",
		"rediss+sentinel://a/m", "postgres://u:p@h/db?sslmode=disable", "postgresql:///db?host=/run/postgresql", "postgres://",
		"redis://$user:$x$@h", "nats://token@h", "nats://u:p@a:4222,b:4222?bucket=limits&replicas=3", "tls://a?credentials=/run/c.creds",
		"nats:embedded?dir=/var/lib/slidegate", "nats:embedded?dir=d&route=10.0.0.1:6222&cluster=10.0.0.1:6222,10.0.0.2:6222&secret=a%26b",
		"nats://a:4222,b?prefix=x",
	} {
		if err := checkStore(text); err != nil {
			t.Errorf("%s is rejected: %v", text, err)
		}
		if err := checkStore(errtext.Redact(text)); err != nil {
			t.Errorf("%s, redacted from %s: %v", errtext.Redact(text), text, err)
		}
	}
	for _, host := range []string{"", ":1", "a:", "a:0", "a:65536", "a:-1", "a:1:2", "a b", "::1", "[::1", "[::1]1", "[::1]:", "[1.2.3.4]", "[[::1]]", "x[::1]", "a,", ",a", "a/@", "a%41"} {
		if err := checkStore("redis://" + host); err == nil {
			t.Errorf("redis://%s is accepted, want an error", host)
		}
	}
	for _, text := range []string{"nats:", "nats:localhost", "nats:embed?dir=d", "nats:embedded?dir=%zz", "nats://", "tls:h"} {
		if err := checkStore(text); err == nil {
			t.Errorf("%s is accepted, want an error", text)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Setenv("SLIDEGATE_TEST_A", "one")
	t.Setenv("SLIDEGATE_TEST_B", "")
	t.Setenv("SLIDEGATE_TEST_URL", "redis://u:hunter2@h")
	t.Setenv("SLIDEGATE_TEST_NEST", "${SLIDEGATE_TEST_A}")
	t.Setenv("SLIDEGATE_TEST_JUNK", "hunter2")
	for _, test := range []struct{ store, want, err string }{
		{"redis://${SLIDEGATE_TEST_A}:${SLIDEGATE_TEST_A}@${SLIDEGATE_TEST_A}", "redis://one:one@one", ""},
		{"${SLIDEGATE_TEST_URL}", "redis://u:hunter2@h", ""},
		{"redis://:${SLIDEGATE_TEST_B}@h", "redis://:@h", ""},
		{"redis://$SLIDEGATE_TEST_A:$@h", "redis://$SLIDEGATE_TEST_A:$@h", ""},
		{"${SLIDEGATE_TEST_NEST}", "", `the variable "SLIDEGATE_TEST_NEST" contains ${, which is not expanded in variables; write $%7B for a literal ${`},
		{"${SLIDEGATE_TEST_B}", "", "must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that contains one"},
		{"${SLIDEGATE_TEST_JUNK}", "", "must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that contains one"},
		{"${}", "", "${ must be followed by the name of a variable, of letters, digits and _, or by file: and a path, and then by }; write $%7B for a literal ${"},
		{"${SLIDEGATE_TEST_C}", "", `the environment variable "SLIDEGATE_TEST_C" is not set; set it`},
	} {
		file, err := Parse("f", []byte(fmt.Sprintf("store: %q\npolicies: {a: {limits: [1/s]}}\n", test.store)))
		switch {
		case test.err == "" && (err != nil || file.Service.Store != test.want):
			t.Errorf("%s: got %+v, %v, want the store %q", test.store, file, err, test.want)
		case test.err != "" && (err == nil || err.Error() != "f:1:8: store: "+test.err):
			t.Errorf("%s: got %v\nwant f:1:8: store: %s", test.store, err, test.err)
		}
	}
	// Elsewhere variables are not expanded.
	file, err := Parse("f", []byte("policies: {a: {limits: [1/s], overrides: [{key: \"${SLIDEGATE_TEST_A}\", unlimited: true}]}}"))
	if err != nil || file.Policies[0].Overrides[0].Key != "${SLIDEGATE_TEST_A}" {
		t.Errorf("a variable in a key: got %+v, %v, want it unexpanded", file, err)
	}
}

// TestNoErrorHasAPassword has a password where it is invalid, and sometimes where it is valid.
func TestNoErrorHasAPassword(t *testing.T) {
	for _, bad := range badServiceFiles {
		_, err := Parse("f", []byte(bad.text))
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: got an error with the password: %v", bad.name, err)
		}
	}
	const address = "redis://u:hunter2@h"
	for _, text := range []string{
		"storage: " + address, "\"" + address + "\": 5", "policies: " + address, "policies: {\"" + address + "\": 5}",
		"policies: {a: " + address + "}", "policies: {a: {key: \"" + address + "\"}}", "policies: {a: {cost: \"" + address + "\"}}",
		"policies: {a: {match: \"" + address + "\"}}", "policies: {a: {match: \"GET " + address + "{\"}}",
		"policies: {a: {limits: [{quota: \"" + address + "\", window: \"" + address + "\"}]}}",
		"policies: {a: {allow: [\"" + address + "\"], block: \"" + address + "\"}}", "default_policy: " + address + "\npolicies: {a: {limits: [1/s]}}",
		"store_timeout: " + address, "trusted_proxies: " + address, "trusted_proxies: [\"" + address + "\"]", address, "store: " + address + ": x",
		"store: | " + address,
		"policies: {a: {overrides: \"" + address + "\"}}", "policies: {a: {overrides: [\"" + address + "\"], shadow: \"" + address + "\"}}",
	} {
		_, err := Parse("f", []byte(text))
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: got error %v, want one without the password", text, err)
		}
	}
}
