package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/keyform"
)

// What a person writes for a field means the key of the request that has it, however both spell it, or is an error that says
// what to write.
func TestFieldsAreWrittenAsPeopleKnowThem(t *testing.T) {
	for _, test := range []struct {
		key, text string
		request   string // method and URL, whose client is ann
		err       string
	}{
		{"host", "Example.COM", "GET http://example.com/", ""},
		{"host", "example.com:8443", "GET http://example.com/", ""},
		{"host", "example.com.", "GET http://Example.com:80/", ""},
		{"host", "host=Example.com", "GET http://example.com/", ""},
		{"host", "2001:db8::1", "GET http://[2001:db8::1]:80/", ""},
		{"host", "[2001:DB8::1]:443", "GET http://[2001:db8::1]:80/", ""},
		{"host", "https://example.com", "", "without https://"},
		{"host", "host:example.com", "", "must have a host"},
		{"host", "münchen.example", "", "xn--"},
		{"host", "*.Example.com", "GET http://a.example.com/", ""},
		{"host", "*.example.com:80", "GET http://a.example.com/", ""},
		{"header:Host", "Example.COM:80", "GET http://example.com/", ""},
		{"header:Host", "Host=Example.COM", "GET http://example.com/", ""},
		{"method", "post", "POST http://h/", ""},
		{"method", "po*", "POST http://h/", ""},
		{"method", "POST /login", "", "such as GET"},
		{"path", "/a//b/../login", "GET http://h/a/login", ""},
		{"path", "path=/login", "GET http://h/%6Cogin", ""},
		{"path", "/a b", "GET http://h/a%20b", ""},
		{"path", "/a%20b", "", "write it decoded"},
		{"path", "login", "", "begins with /"},
		{"path", "/login?a=b", "", "without ?"},
		{"path", `/a\b`, "GET http://h/a/b", ""},
		{"path", "/100%", "GET http://h/100%25", ""},
		{"path", "/a//*", "GET http://h/a/b", ""},
		{"path", "*/login", "GET http://h/login", ""},
		{"path", "/Login/", "GET http://h/lOGIN", ""},
		{"path", "/A/*", "GET http://h/a/B/", ""},
		{"path", "*/", "", "without a slash at its end"},
		{`"{path} {header:X-User}"`, "/A*", "GET http://h/a/b", ""},
		{"query", "?a=b", "GET http://h/?a=b", ""},
		{"query", "query=b", "GET http://h/?query=b", ""},
		{"query", "a=b c", "", "%20"},
		{`"on {host}"`, "Example.com", "GET http://example.com/", ""},
		{`"on {host}"`, "on Example.com.", "GET http://example.com/", ""},
		{`"{header:X-User} {path}"`, "ann /a//login", "GET http://h/a/login", ""},
		{`"{header:X-User} {path}"`, "ann /a%20b", "GET http://h/a%20b", ""},
		{`"{header:X-User} {path}"`, "ann login", "", "begins with /"},
		{`"{header:X-User} {path}"`, "* /a//login", "GET http://h/a/login", ""},
		{`"{method} {host} {path}"`, "get Example.com:80 /login/.", "GET http://example.com/login", ""},
		{`"{method} {host} {path}"`, "get Example.* /*", "GET http://example.com/login", ""},
		{`"{host} {path}"`, "Example.com*", "GET http://example.com/login", ""},
		{`"{host} {path}"`, "Example.*login", "GET http://example.com/login", ""},
		{`"{method} {host} {path}"`, "get *login", "GET http://example.com/login", ""},
		{`["{user}", "{host}"]`, "host=Example.com", "GET http://example.com/", ""},
		{`["{user}", "{host} {path}"]`, "host,path:Example.com /a//b", "GET http://example.com/a/b", ""},
		{`"tenant/{header:X-User}"`, "X-User=ann", "GET http://h/", ""},
		{`"tenant/{header:X-User}"`, "header:X-User=tenant/ann", "GET http://h/", ""},
		{`"tenant/{header:X-User}"`, "header:X-User:ann", "GET http://h/", ""},
		{`"tenant/{header:X-User}"`, "X-User=a*", "GET http://h/", ""},
		{`"tenant/{header:X-User}"`, "X-User=", "", "must have a value"},
		{`"tenant/{header:X-User}"`, "X-User= ann", "", "no space"},
		{`"{header:X-User} {path}"`, " /x", "", "space"},
		{`"{path} {header:X-User}"`, "/x ", "", "space"},
		{`"{path}|{header:X-User}"`, "/x|", "", "must have a value"},
		{`"{header:X-User} {path}"`, "ann%20 /x", "", "no space"},
		{"header:X-User", "header:X-User: ann", "", "space"},
		{"header:X-User", "header:X-User:ann", "GET http://h/", ""},
		{"header:X-User", "header:X-User=ann", "GET http://h/", ""},
		{`["{header:X-User}", "{header:X-Team}"]`, "header:X-User:ann", "GET http://h/", ""},
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
				t.Errorf("%s, %s: got %v, %v, want an error that says %q", test.key, test.text, read.Keys, err, test.err)
			}
			continue
		}
		method, target, _ := strings.Cut(test.request, " ")
		r := httptest.NewRequest(method, target, http.NoBody)
		r.Header.Set("X-User", "ann")
		key, _ := opts.Policies[0].Key.Of(r)
		if err != nil || !read.Matches(key) {
			t.Errorf("%s, %s: got %v, %v, want it to match %q", test.key, test.text, read.Keys, err, key)
		}
		again, err := keyform.Read(file.Policies[0].Key.Form(file.Service.AddressGroups), read.Text, true)
		if err != nil || !again.Matches(key) {
			t.Errorf("%s, %s: is stored as %q, which means %v, %v", test.key, test.text, read.Text, again.Keys, err)
		}
	}
}
