package fields

import (
	"testing"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
)

// A key of several fields has one spelling: the one that requests have. With any other, a ruling would match nobody.
func TestFormsOfSeveralFields(t *testing.T) {
	for template, texts := range map[string]map[string]bool{
		"{header:X-User} {path}": {
			"alice /login": true, "a%20b%25 /login": true, "address:203.0.113.7 /login": true, "%61ddress:x /login": true,
			"%61lice /login": false, "al%2fice /login": false, "al%2Fice /login": false, "alice %2Flogin": false, "alice /lo%67in": false, "alice": false,
			"a%2 /login": false,
		},
		"{header:X-User}:{method}": {"alice:GET": true, "a%3Ab:GET": true, "a%3ab:GET": false, "address%3A203.0.113.7:GET": true, "address%3Ax:GET": false},
		"{address} {method}":       {"2001:db8::/64 GET": true, "2001:db8::%2F64 GET": false, "203.0.113.7 get": false},
	} {
		one, err := ParseTemplate(template)
		if err != nil {
			t.Fatal(err)
		}
		for text, valid := range texts {
			if _, err := keyform.Read(one.Form(clientip.Grouping{}), text, false); (err == nil) != valid {
				t.Errorf("%s of %s: got error %v, want one: %v", text, template, err, !valid)
			}
		}
	}
}
