package keyform

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/clientip"
)

// sum is the key of the secret hunter2.
const sum = "sha256:f52fbd32b2b3b86ff88ef6c490628285"

var (
	userPart   = Part{Name: "header:X-User", Form: Text}
	teamPart   = Part{Name: "header:X-Team", Form: Text}
	secretPart = Part{Name: "header:X-Api-Key", Form: Secret}
	address    = Part{Name: "address", Form: Address(clientip.Grouping{})}
)

func marked(mark string, p Part) Part {
	p.Mark = mark
	return p
}

// A key is written as requests have it; anything else is an error that shows a key of the form.
func TestReadKey(t *testing.T) {
	wide := Address(clientip.Grouping{V4: 24, V6: 56})
	userOrAddress := FirstOf(marked("header:X-User:", userPart), marked("address:", address))
	nameOrAddress := FirstOf(userPart, marked("address:", address))
	secretOrAddress := FirstOf(secretPart, marked("address:", address))
	both := AllOf(userPart, teamPart)
	nested := AllOf(Part{Form: userOrAddress}, secretPart, Part{})
	for _, test := range []struct {
		name string
		form Form
		text string
		err  string // what the error contains; none if empty
	}{
		{"opaque", nil, "anything at all", ""},
		{"opaque star", nil, "a*b", ""},
		{"address", address.Form, "203.0.113.7", ""},
		{"mapped address", address.Form, "::ffff:203.0.113.7", "write 203.0.113.7"},
		{"IPv6", address.Form, "2001:db8::1", "write 2001:db8::/64"},
		{"a group of IPv6", address.Form, "2001:db8::/64", ""},
		{"6to4", address.Form, "2002:cb00:7107::1", "write 203.0.113.7"},
		{"no address", address.Form, "alice", `such as "203.0.113.7"`},
		{"prefix", address.Form, "203.0.113.0/24", ""},
		{"prefix in capitals", address.Form, "2001:DB8::/32", "write 2001:db8::/32"},
		{"mapped prefix", address.Form, "::ffff:203.0.113.0/120", "write it as IPv4"},
		{"one address as a prefix", address.Form, "203.0.113.7/32", "write 203.0.113.7"},
		{"bits beyond", address.Form, "203.0.113.7/24", "write the prefix 203.0.113.0/24"},
		{"longer than a group", address.Form, "2001:db8::/80", "write 2001:db8::/64"},
		{"a group", wide, "203.0.113.0/24", ""},
		{"an address of a group", wide, "203.0.113.9", "write 203.0.113.0/24"},
		{"several groups", wide, "203.0.0.0/16", ""},
		{"embedded prefix", address.Form, "2002:cb00:7100::/40", "write the IPv4 prefix"},
		{"socket", address.Form, "unix", ""},
		{"secret", Secret, "hunter2", "policy.HashSecret"},
		{"hash", Secret, sum, ""},
		{"name", Text, "eve", ""},
		{"space", Text, "bob ", ""},
		{"a star", Text, "a*", ""},
		{"first of", userOrAddress, "header:X-User:eve", ""},
		{"first of, an address", userOrAddress, "address:203.0.113.7", ""},
		{"first of, a prefix", userOrAddress, "address:203.0.113.0/24", ""},
		{"first of, no mark", userOrAddress, "eve", "must begin with one of header:X-User:, address:"},
		{"first of, another spelling", userOrAddress, "X-User=eve", `such as "header:X-User:alice"`},
		{"first of, it does not fit", userOrAddress, "address:eve", "must be an address"},
		{"first of, empty", userOrAddress, "header:X-User:", "no client has the empty key"},
		{"a name or an address: name", nameOrAddress, "203.0.113.7", ""},
		{"a name or an address: address", nameOrAddress, "address:203.0.113.7", ""},
		{"a name or an address: escaped", nameOrAddress, "%address:x", ""},
		{"a name or an address: empty", nameOrAddress, "", "no client has the empty key"},
		{"a secret or an address", secretOrAddress, sum, ""},
		{"a secret or an address: no hash", secretOrAddress, "hunter2", "policy.HashSecret"},
		{"all of", both, "3:eve3:red", ""},
		{"all of, an empty part", both, "3:eve0:", ""},
		{"all of, a part", both, "eve", `such as "5:alice5:alice"`},
		{"all of, one too many", both, "3:eve3:red1:x", "more than its 2 parts"},
		{"all of, by names", both, "X-User=eve,X-Team=red", "each after its length"},
		{"all of, nested", nested, allOfPart("header:X-User:eve") + allOfPart(sum) + "1:x", ""},
		{"all of, a secret", nested, allOfPart("header:X-User:eve") + allOfPart("hunter2") + "1:x", "policy.HashSecret"},
		{"all of, a prefix", nested, allOfPart("address:203.0.113.0/24") + allOfPart(sum) + "1:x", "must not be a prefix"},
		{"bytes", Text, `"J\xf6rg"`, ""},
		{"quotes", Text, `"eve"`, ""},
		{"path", Path, "/login", ""},
		{"another path", Path, "/a//login", "must be a path"},
		{"global", Global, "alice", `such as ""`},
		{"global, empty", Global, "", ""},
	} {
		read, err := Read(test.form, test.text, false)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got %v, want %q", test.name, err, test.err)
			}
		case err != nil || read.String() != test.text || read.Pattern:
			t.Errorf("%s: got %+v, %v, want %q", test.name, read, err, test.text)
		}
	}
	if read, err := Read(Text, `"J\xf6rg"`, false); err != nil || !read.Matches("J\xf6rg") {
		t.Errorf("a key that is not UTF-8: got %+v, %v", read, err)
	}
	for _, form := range []Form{userOrAddress, nameOrAddress, nested, wide, Secret, Path, Global} {
		if _, err := Read(form, form.Example(), false); err != nil {
			t.Errorf("the example %q: %v", form.Example(), err)
		}
	}
}

// A pattern is compared with keys as requests have them, and is an error where none can fit.
func TestReadPattern(t *testing.T) {
	userOrAddress := FirstOf(marked("header:X-User:", userPart), marked("address:", address))
	for _, test := range []struct {
		form    Form
		text    string
		matches []string
		err     string
	}{
		{Text, "team-*", []string{"team-a"}, ""},
		{userOrAddress, "header:X-User:team-*", []string{"header:X-User:team-a"}, ""},
		{userOrAddress, "header:*", []string{"header:X-User:team-a"}, ""},
		{userOrAddress, "address:203.0.113.*", []string{"address:203.0.113.7"}, ""},
		{userOrAddress, "*", []string{"header:X-User:a", "address:203.0.113.7"}, ""},
		{userOrAddress, "team-*", nil, "must begin with one of"},
		{address.Form, "10.*", []string{"10.1.2.3"}, ""},
		{address.Form, "team-*", nil, "no address fits"},
		{Secret, "hunter*", nil, "policy.HashSecret"},
		{Secret, "*", []string{sum}, ""},
		{AllOf(userPart, teamPart), "eve*", nil, "each after its length"},
		{AllOf(userPart, teamPart), "*", []string{"3:eve3:red"}, ""},
	} {
		read, err := Read(test.form, test.text, true)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: got %v, want an error that says %q", test.text, err, test.err)
			}
			continue
		}
		for _, key := range test.matches {
			if err != nil || !read.Matches(key) {
				t.Errorf("%s: got %+v, %v, want it to match %q", test.text, read, err, key)
			}
		}
		if read.Matches("x:team-a") && test.text != "*" {
			t.Errorf("%s matches x:team-a", test.text)
		}
	}
}
