package errtext

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for _, test := range []struct{ store, want string }{
		{"", ""},
		{"memory:", "memory:"},
		{"redis://localhost:6379/0", "redis://localhost:6379/0"},
		{"redis://user@h", "redis://user@h"},
		{"redis://user:hunter2@h:1/0?prefix=b", "redis://user:***@h:1/0?prefix=b"},
		{"redis://:hunter2@h", "redis://:***@h"},
		{"redis://u:@h", "redis://u:***@h"},
		{"redis://${file:/run/user}:${file:/run/password}@h", "redis://${file:/run/user}:***@h"},
		{"redis://${file:/run/user}@h", "redis://${file:/run/user}@h"},
		{"redis://${file:/u:hunter2@h", "redis://${file:***@h"},
		{"redis://${u:hunter2}@h", "redis://${u:***@h"},
		{"redis://u:***@h", "redis://u:***@h"},
		{"postgres://h/db?user=u&password=hunter2&sslmode=disable", "postgres://h/db?user=u&password=***&sslmode=disable"},
		{"postgres://h/db?PassWord=hunter2", "postgres://h/db?PassWord=***"},
		{"postgres://h/db?p%61ssword=hunter2", "postgres://h/db?p%61ssword=***"},
		{"postgres://h/db?sslpassword=hunter2;user=b", "postgres://h/db?sslpassword=***;user=b"},
		{"redis+sentinel://h/m?sentinel_password=hunter2&&x", "redis+sentinel://h/m?sentinel_password=***&&x"},
		{"x://h?secret=hunter2&token=hunter2&pwd=hunter2&passwd=hunter2", "x://h?secret=***&token=***&pwd=***&passwd=***"},
		{"x://h?password", "x://h?password"},
		{"nats:embedded?dir=/d&sekret=hunter2&secrett=hunter2&Route=h:1", "nats:embedded?dir=/d&sekret=***&secrett=***&Route=h:1"},
		{"redis://h?passwort=hunter2&pass=hunter2&auth=hunter2&prefix=p", "redis://h?passwort=***&pass=***&auth=***&prefix=p"},
		{"postgres://h/db?sslmode=require&pasword=hunter2", "postgres://h/db?sslmode=require&pasword=***"},
		{"nats://hunter2@h", "nats://***@h"},
		{"nats://u:hunter2@h,i:4222?bucket=b", "nats://u:***@h,i:4222?bucket=b"},
		{"tls://hunter2@h", "tls://***@h"},
		{"nats:embedded?dir=/d&secret=hunter2&route=h:1", "nats:embedded?dir=/d&secret=***&route=h:1"},
		// These are invalid, and still show nothing of a password.
		{"redis://u:hunt@er2@h", "redis://u:***@h"},
		{"redis://u:hunt/er2@h", "redis://u:***@h"},
		{"redis://u:hunt?er2@h", "redis://u:***@h"},
		{"redis://u:hunt:er2@h", "redis://u:***@h"},
		{"a redis://u:hunter2@h", "a redis://u:***@h"},
	} {
		if got := Redact(test.store); got != test.want {
			t.Errorf("Redact(%q): got %q, want %q", test.store, got, test.want)
		}
		if again := Redact(test.want); again != test.want {
			t.Errorf("Redact(%q): got %q, want it unchanged", test.want, again)
		}
	}
}

// A text without a URL is returned unchanged, whatever it looks like.
func TestMask(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"/search?token=abc", "/search?token=abc"},
		{"a:b@c", "a:b@c"},
		{"GET redis://u:hunter2@h", "GET redis://u:***@h"},
		{"GET nats:embedded?secret=hunter2", "GET nats:embedded?secret=***"},
	} {
		if got := Mask(test.text); got != test.want {
			t.Errorf("Mask(%q): got %q, want %q", test.text, got, test.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"a\n\"b\"", `"a\n\"b\""`},
		{strings.Repeat("a", 60), `"` + strings.Repeat("a", 60) + `"`},
		{strings.Repeat("a", 59) + "é and so on", `"` + strings.Repeat("a", 59) + `"...`},
		{"redis://u:hunter2@h", `"redis://u:***@h"`},
		{"redis://u:hunter2" + strings.Repeat("2", 60) + "@h", `"redis://u:***@h"`}, // masked first, and then short enough
	} {
		if got := Quote(test.text); got != test.want {
			t.Errorf("Quote(%q): got %s, want %s", test.text, got, test.want)
		}
	}
}
