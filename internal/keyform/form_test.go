package keyform

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/policy"
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

// What a person writes means these keys, or is an error that says what to write.
func TestReadKey(t *testing.T) {
	wide := Address(clientip.Grouping{V4: 24, V6: 56})
	userOrAddress := FirstOf(marked("0:", userPart), marked("1:", address))
	secretOrUser := FirstOf(marked("0:", secretPart), marked("1:", userPart))
	secretOrAddress := FirstOf(marked("", secretPart), marked("address:", address))
	both := AllOf(userPart, teamPart)
	nested := AllOf(Part{Form: userOrAddress}, secretPart, Part{})
	for _, test := range []struct {
		name string
		form Form
		text string
		want string // the keys, separated by spaces, or what the error contains
		ok   bool
	}{
		{"opaque", nil, "anything at all", "anything at all", true},
		{"opaque star", nil, "a*b", "contains a *", false},
		{"opaque exact", nil, "=a*b", "a*b", true},
		{"address", address.Form, "203.0.113.7", "203.0.113.7", true},
		{"mapped address", address.Form, "::ffff:203.0.113.7", "203.0.113.7", true},
		{"IPv6", address.Form, "2001:DB8::1", "2001:db8::/64", true},
		{"6to4", address.Form, "2002:cb00:7107::1", "203.0.113.7", true},
		{"no address", address.Form, "alice", "203.0.113.0/24", false},
		{"prefix", address.Form, "203.0.113.0/24", "203.0.113.0/24", true},
		{"mapped prefix", address.Form, "::ffff:203.0.113.0/120", "203.0.113.0/24", true},
		{"one address as a prefix", address.Form, "203.0.113.7/32", "203.0.113.7", true},
		{"one IPv6 address as a prefix", address.Form, "2001:db8::1/128", "2001:db8::/64", true},
		{"bits beyond", address.Form, "203.0.113.7/24", "write the prefix 203.0.113.0/24", false},
		{"longer than a group", address.Form, "2001:db8::/80", "write 2001:db8::/64", false},
		{"a group", wide, "203.0.113.0/24", "203.0.113.0/24", true},
		{"an address of a group", wide, "203.0.113.9", "203.0.113.0/24", true},
		{"several groups", wide, "203.0.0.0/16", "203.0.0.0/16", true},
		{"embedded prefix", address.Form, "2002:cb00:7100::/40", "write the IPv4 prefix", false},
		{"socket", address.Form, "unix", "unix", true},
		{"secret", Secret, "hunter2", sum, true},
		{"hash", Secret, sum, sum, true},
		{"a secret like a hash", Secret, strings.TrimPrefix(sum, "sha256:"), policy.HashSecret(strings.TrimPrefix(sum, "sha256:")), true},
		{"name", Text, "eve", "eve", true},
		{"space", Text, "bob ", "ends with a space", false},
		{"exact space", Text, "=bob ", "bob ", true},
		{"first of, a name", userOrAddress, "eve", "0:eve", true},
		{"first of, an address", userOrAddress, "2001:db8::1", "0:2001:db8::1 1:2001:db8::/64", true},
		{"first of, a prefix", userOrAddress, "address=203.0.113.0/24", "1:203.0.113.0/24", true},
		{"first of, named", userOrAddress, "header:X-User=203.0.113.7", "0:203.0.113.7", true},
		{"first of, named in short", userOrAddress, "x-user=eve", "0:eve", true},
		{"first of, as stored", userOrAddress, "0:eve", "0:eve", true},
		{"first of, the named one does not fit", userOrAddress, "1:eve", "must be an address", false},
		{"first of, a secret or a name", secretOrUser, "hunter2", "header:X-Api-Key=VALUE", false},
		{"first of, the secret", secretOrUser, "X-Api-Key=hunter2", "0:" + sum, true},
		{"first of, the name", secretOrUser, "X-User=hunter2", "1:hunter2", true},
		{"a secret or an address: secret", secretOrAddress, "hunter2", sum, true},
		{"a secret or an address: address", secretOrAddress, "203.0.113.7", "address:203.0.113.7", true},
		{"a secret or an address: prefix", secretOrAddress, "203.0.113.0/24", "address:203.0.113.0/24", true},
		{"all of, a part", both, "eve", "write header:X-User=VALUE,header:X-Team=VALUE", false},
		{"all of", both, "X-User=eve,X-Team=red", "3:eve3:red", true},
		{"all of, with a comma", both, "header:X-User=eve,x,header:X-Team=a,b", "5:eve,x3:a,b", true},
		{"all of, an empty part", both, "X-User=eve,X-Team=", "3:eve0:", true},
		{"all of, as stored", both, "3:eve3:red", "3:eve3:red", true},
		{"all of, one too many", both, "3:eve3:red1:x", "write header:X-User", false},
		{"all of, nested", nested, "X-User=eve,X-Api-Key=hunter2,key3=x", AllOfPart("0:eve") + AllOfPart(sum) + "1:x", true},
		{"all of, nested and not as stored", nested, AllOfPart("0:eve") + AllOfPart("hunter2") + "1:x", "is not as requests have it", false},
		{"all of, a prefix", nested, "address=203.0.113.0/24,X-Api-Key=hunter2,key3=x", "not a prefix", false},
		{"first of, named with a colon", userOrAddress, "header:X-User:eve", "0:eve", true},
		{"first of, exactly", userOrAddress, "=0:a*b", "0:a*b", true},
		{"first of, exactly without a mark", userOrAddress, "=eve", "write which of header:X-User, address", false},
		{"secret, exactly", Secret, "=hunter2", "the hash of a secret", false},
		{"secret, exactly its hash", Secret, "=" + sum, sum, true},
		{"secret, a star", Secret, "hunter2*", "policy.HashSecret", false},
		{"secret, exactly a star", Secret, "=hunter2*", "policy.HashSecret", false},
		{"a secret or an address: exactly", secretOrAddress, "=hunter2*", "policy.HashSecret", false},
		{"a secret or an address: a star", secretOrAddress, "hunter2*", "policy.HashSecret", false},
		{"first of, exactly a secret", secretOrUser, "=0:hunter2", "policy.HashSecret", false},
		{"first of, exactly a name", secretOrUser, "=1:hunter2*", "1:hunter2*", true},
		{"all of, exactly", both, "=eve", "write all parts", false},
		{"all of, exactly a secret", nested, "=" + AllOfPart("0:eve") + AllOfPart("hunter2") + "1:x", "policy.HashSecret", false},
		{"bytes", Text, "J\xf6rg", "J\xf6rg", true},
		{"bytes, quoted", Text, `"J\xf6rg"`, "J\xf6rg", true},
		{"bytes, exactly", Text, `="J\xf6rg*"`, "J\xf6rg*", true},
		{"bytes, of an alternative", userOrAddress, `"J\xf6rg"`, "0:J\xf6rg", true},
		{"quotes", Text, `"eve"`, `"eve"`, true},
		{"global", Global, "alice", `write ""`, false},
		{"global, empty", Global, "", "", true},
	} {
		read, err := Read(test.form, test.text, false)
		var keys []string
		for _, match := range read.Keys {
			keys = append(keys, match.String())
		}
		got := strings.Join(keys, " ")
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != test.ok || test.ok && got != test.want || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
			continue
		}
		if err == nil { // what is stored means the same, is no secret, and survives JSON
			if !utf8.ValidString(read.Text) {
				t.Errorf("%s: stored as %q, which is not UTF-8", test.name, read.Text)
			}
			again, err := Read(test.form, read.Text, false)
			if err != nil || again.Text != read.Text || !slices.Equal(again.Keys, read.Keys) || strings.Contains(read.Text, "hunter2") && !strings.Contains(got, "hunter2") {
				t.Errorf("%s: %q is stored as %q, which means %v, %v", test.name, test.text, read.Text, again.Keys, err)
			}
		}
	}
}

// A pattern is compared with keys as requests have them, and is an error where none can fit.
func TestReadPattern(t *testing.T) {
	userOrAddress := FirstOf(marked("0:", userPart), marked("1:", address))
	for _, test := range []struct {
		form    Form
		text    string
		matches []string
		err     string
	}{
		{Text, "team-*", []string{"team-a"}, ""},
		{userOrAddress, "team-*", []string{"0:team-a"}, ""},
		{userOrAddress, "203.0.113.*", []string{"0:203.0.113.x", "1:203.0.113.7"}, ""},
		{userOrAddress, "*", []string{"0:a", "1:203.0.113.7"}, ""},
		{address.Form, "10.*", []string{"10.1.2.3"}, ""},
		{address.Form, "team-*", nil, "no address fits"},
		{Secret, "hunter*", nil, "write the whole secret"},
		{Secret, "*", []string{sum}, ""},
		{AllOf(userPart, teamPart), "eve*", nil, "write all parts"},
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
				t.Errorf("%s: got %v, %v, want it to match %q", test.text, read.Keys, err, key)
			}
		}
		if read.Matches("x:team-a") && test.text != "*" {
			t.Errorf("%s matches x:team-a", test.text)
		}
	}
}
