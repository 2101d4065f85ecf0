package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/keyform"
)

// A key has the values of fields as requests have them, however clients spell them, or is an error that shows such a key.
func TestKeysAreWrittenAsRequestsHaveThem(t *testing.T) {
	for _, test := range []struct {
		key, text string
		request   string // method and URL, whose client is ann
		err       string
	}{
		{"host", "example.com", "GET http://Example.com.:80/", ""},
		{"host", "Example.COM", "", `such as "example.com"`},
		{"host", "*.example.com", "GET http://a.Example.com/", ""},
		{"header:Host", "example.com", "GET http://example.com:80/", ""},
		{"header:Host", "Example.COM:80", "", `such as "example.com"`},
		{"method", "POST", "POST http://h/", ""},
		{"method", "post", "", `such as "GET"`},
		{"method", "PO*", "POST http://h/", ""},
		{"path", "/a/login", "GET http://h/a//b/../login", ""},
		{"path", "/a//login", "", `such as "/login"`},
		{"path", "/a b", "GET http://h/a%20b", ""},
		{"path", "login", "", `such as "/login"`},
		{"path", "/100%", "GET http://h/100%25", ""},
		{"path", "/a/*", "GET http://h/a/B/", ""},
		{"path", "*/login", "GET http://h/login", ""},
		{"path", "/Login/", "", `such as "/login"`},
		{`"{path} {header:X-User}"`, "/a*", "GET http://h/a/b", ""},
		{"query", "a=b", "GET http://h/?a=b", ""},
		{"query", "?a=b", "", `such as "page=2"`},
		{`"on {host}"`, "on example.com", "GET http://example.com/", ""},
		{`"on {host}"`, "example.com", "", `such as "on example.com"`},
		{`"{header:X-User} {path}"`, "ann /a/login", "GET http://h/a/login", ""},
		{`"{header:X-User} {path}"`, "ann", "", `such as "alice /login"`},
		{`"{header:X-User} {path}"`, "ann /a%20b", "GET http://h/a%20b", ""},
		{`"{header:X-User} {path}"`, "ann login", "", "in place of {path}"},
		{`"{header:X-User} {path}"`, "* /a/login", "GET http://h/a/login", ""},
		{`"{header:X-User} {path}"`, "address:203.0.113.7x /x", "", "in place of {address}"},
		{`"{method} {host} {path}"`, "GET example.com /login", "GET http://example.com/login", ""},
		{`"{host} {path}"`, "example.com*", "GET http://example.com/login", ""},
		{`["{user}", "{host}"]`, "host:example.com", "GET http://example.com/", ""},
		{`["{user}", "{host} {path}"]`, "host,path:example.com /a/b", "GET http://example.com/a/b", ""},
		{`["{user}", "{host}"]`, "host:Example.com", "", "in place of {host}"},
		{`"tenant/{header:X-User}"`, "tenant/ann", "GET http://h/", ""},
		{`"tenant/{header:X-User}"`, "tenant/a*", "GET http://h/", ""},
		{`"tenant/{header:X-User}"`, "ann", "", `such as "tenant/alice"`},
		{`"tenant/{header:X-User}"`, "tenant/", "", "in place of {header:X-User}"},
		{`"tenant/{header:X-User}"`, "tenant/ ann", "", "in place of {header:X-User}"},
		{"header:X-User", "ann", "GET http://h/", ""},
		{"header:X-User", "", "", "no client has the empty key"},
		{"header:X-User", "address:ann", "", "must be an address"},
		{`["{header:X-Team}", "{header:X-User}"]`, "header:X-User:ann", "GET http://h/", ""},
	} {
		file, err := config.Parse("f.yaml", []byte("policies:\n  a:\n    key: "+test.key+"\n    limits: [1/s]\n"))
		if err != nil {
			t.Fatal(err)
		}
		opts, err := config.HTTP(file)
		if err != nil {
			t.Fatal(err)
		}
		read, err := keyform.Read(file.Policies[0].Key.Form(file.Service.AddressGroups), test.text, true)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s, %s: got %v, %v, want an error that says %q", test.key, test.text, read, err, test.err)
			}
			continue
		}
		method, target, _ := strings.Cut(test.request, " ")
		r := httptest.NewRequest(method, target, http.NoBody)
		r.Header.Set("X-User", "ann")
		key, _ := opts.Policies[0].Key.Of(r)
		if err != nil || !read.Matches(key) {
			t.Errorf("%s, %s: got %v, %v, want it to match %q", test.key, test.text, read, err, key)
		}
	}
}
