package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parseStore reads a file with this store, so that errors have the position of the URL.
func parseStore(text string, read func(string, []byte) (*File, error)) (string, error) {
	file, err := read("f", []byte(fmt.Sprintf("store: %q\npolicies: {a: {limits: [1/s]}}\n", text)))
	if err != nil {
		return "", err
	}
	return file.Service.Store, nil
}

// secretFile creates a file and returns its path.
func secretFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Characters that are not valid in the password of a URL need no encoding in a file, and none in a variable unless it looks
// encoded.
func TestSecretsAreEncoded(t *testing.T) {
	plain := secretFile(t, "plain", "s3cret\n")
	windows := secretFile(t, "windows", "s3cret\r\n")
	odd := secretFile(t, "odd", "a/b@c:d?e#f%41 g${h}ü\n")
	address := secretFile(t, "address", "redis://u:p%40ss@h/2")
	hosts := secretFile(t, "hosts", "a:1,b:2")
	t.Setenv("SLIDEGATE_TEST_ODD", "a/b@c:d?e#f%41%g")
	t.Setenv("SLIDEGATE_TEST_BOTH", "user:p@ss")
	for _, test := range []struct{ store, want string }{
		{"redis://:${file:" + plain + "}@h", "redis://:s3cret@h"},
		{"redis://:${file:" + windows + "}@h", "redis://:s3cret@h"},
		{"redis://${file:" + plain + "}:${file:" + odd + "}@h:1/2", "redis://s3cret:a%2Fb%40c%3Ad%3Fe%23f%2541%20g%24%7Bh%7D%C3%BC@h:1/2"},
		{"${file:" + address + "}", "redis://u:p%40ss@h/2"},
		{"redis+cluster://${file:" + hosts + "}", "redis+cluster://a:1,b:2"},
		{"postgres://h/db?password=${file:" + odd + "}&sslmode=disable", "postgres://h/db?password=a%2Fb%40c%3Ad%3Fe%23f%2541%20g%24%7Bh%7D%C3%BC&sslmode=disable"},
		{"redis://:${SLIDEGATE_TEST_ODD}@h", "redis://:a%2Fb%40c:d%3Fe%23f%41%25g@h"},
		{"redis://${SLIDEGATE_TEST_BOTH}@h", "redis://user:p%40ss@h"},
	} {
		if got, err := parseStore(test.store, Parse); err != nil || got != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.store, got, err, test.want)
		}
	}
}

func TestInvalidSecrets(t *testing.T) {
	folder := t.TempDir()
	missing := filepath.Join(folder, "missing")
	empty, newline := secretFile(t, "empty", ""), secretFile(t, "newline", "\n")
	lines := secretFile(t, "lines", "hunter2\nhunter3\n")
	large := secretFile(t, "large", strings.Repeat("hunter2", maxSecret/7+1))
	nested := secretFile(t, "nested", "${HOME}hunter2")
	for _, test := range []struct{ name, path, want string }{
		{"missing", missing, fmt.Sprintf("the file %q does not exist; create it, or mount the secret there: file does not exist", missing)},
		{"folder", folder, fmt.Sprintf("%q is a folder; name the file in it", folder)},
		{"empty", empty, fmt.Sprintf("the file %q is empty; write the secret into it", empty)},
		{"only a newline", newline, fmt.Sprintf("the file %q is empty; write the secret into it", newline)},
		{"several lines", lines, fmt.Sprintf("the file %q has several lines, or a zero byte; write the secret on one line", lines)},
		{"large", large, fmt.Sprintf("the file %q is larger than 64 KiB, too large for a password; is it the right one?", large)},
		{"relative", "secret", "${file:secret}: the path must begin with /, such as ${file:/run/secrets/redis_password}"},
		{"no path", "", "${file:}: the path must begin with /, such as ${file:/run/secrets/redis_password}"},
	} {
		_, err := parseStore("redis://:${file:"+test.path+"}@h", Parse)
		if err == nil || err.Error() != "f:1:8: store: "+test.want {
			t.Errorf("%s: got %v\nwant f:1:8: store: %s", test.name, err, test.want)
		}
	}
	if _, err := parseStore("${file:"+nested+"}", Parse); err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "is not expanded in files") {
		t.Errorf("a file that contains a variable: got %v", err)
	}
	if os.Getuid() != 0 { // root may read everything
		hidden := secretFile(t, "hidden", "hunter2")
		if err := os.Chmod(hidden, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := parseStore("redis://:${file:"+hidden+"}@h", Parse); err == nil || !strings.Contains(err.Error(), "cannot be read by this user") {
			t.Errorf("a file without permission: got %v", err)
		}
	}
}

func parseOffline(name string, text []byte) (*File, error) {
	return parse(Options{Offline: true}, input{name, text})
}

// A program that never connects needs no secret, but existing ones must be valid.
func TestOfflineSecretsMayBeMissing(t *testing.T) {
	written := "redis://:${file:/nowhere/at/all}@h"
	if got, err := parseStore(written, parseOffline); err != nil || got != written {
		t.Errorf("got %q, %v, want the URL as it was written", got, err)
	}
	if _, err := parseStore("redsi://:${file:/nowhere/at/all}@h", parseOffline); err == nil {
		t.Error("an unknown kind of store is accepted, want an error")
	}
	if _, err := parseStore("redis://:${file:"+t.TempDir()+"}@h", parseOffline); err == nil {
		t.Error("a folder is accepted as a secret, want an error")
	}
}
