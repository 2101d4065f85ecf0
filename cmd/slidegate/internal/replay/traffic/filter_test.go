package traffic

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFilter(t *testing.T) {
	requests := []string{"GET /", "GET /api/items", "POST /api/login", "GET /health", "HEAD /health", "OPTIONS /api/items", "- -"}
	statuses := []string{"200", "200", "401", "204", "404", "500", "-"}
	for _, test := range []struct {
		methods, paths, statuses string
		want                     string // the numbers of the selected requests
	}{
		{want: "0123456"},
		{methods: "GET", want: "013"},
		{methods: "get,Post", want: "0123"},
		{methods: "!HEAD,!OPTIONS", want: "01236"},
		{methods: "GET,!GET", want: ""},
		{paths: "/", want: "0"},
		{paths: "/api/*", want: "125"},
		{paths: "*", want: "012345"},
		{paths: "!/health", want: "01256"},
		{paths: "!*", want: "6"},
		{paths: "/api/*,!*/login", want: "15"},
		{paths: "*e*t*", want: "34"}, // health has a t after its e; in items it is before
		{statuses: "2xx", want: "013"},
		{statuses: "401,404", want: "24"},
		{statuses: "400-499", want: "24"},
		{statuses: "!2xx,!500-599", want: "246"},
		{methods: "GET", paths: "/api/*", statuses: "200", want: "1"},
	} {
		f, err := ParseFilter(list(test.methods), list(test.paths), list(test.statuses))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, request := range requests {
			e := newEntry(wants{})
			verb, target, _ := strings.Cut(request, " ")
			e.values[fieldMethod], e.values[fieldPath], e.values[fieldStatus] = present([]byte(verb)), present([]byte(target)), present([]byte(statuses[i]))
			if f.selects(e) {
				got += string(rune('0' + i))
			}
		}
		if got != test.want {
			t.Errorf("methods %q, paths %q, statuses %q: got %q, want %q", test.methods, test.paths, test.statuses, got, test.want)
		}
		if f.IsZero() != (test.methods+test.paths+test.statuses == "") {
			t.Errorf("methods %q, paths %q, statuses %q: IsZero is %v", test.methods, test.paths, test.statuses, f.IsZero())
		}
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func TestFilterErrors(t *testing.T) {
	for _, test := range []struct{ methods, paths, statuses, want string }{
		{methods: "GET /", want: `traffic: Filter.Method: "GET /": want a method such as GET, or !OPTIONS to exclude it`},
		{methods: "!", want: `traffic: Filter.Method: "!"`},
		{paths: "!", want: `traffic: Filter.Path: "!": want a path such as /login`},
		{paths: "/a?b", want: `traffic: Filter.Path: "/a?b": a path is compared without its query`},
		{statuses: "20x", want: `traffic: Filter.Status: "20x": want a status such as 404, 2xx or 400-499`},
		{statuses: "xx", want: `traffic: Filter.Status: "xx"`},
		{statuses: "0xx", want: `traffic: Filter.Status: "0xx"`},
		{statuses: "499-400", want: `traffic: Filter.Status: "499-400"`},
		{statuses: "1000", want: `traffic: Filter.Status: "1000"`},
		{statuses: "-1", want: `traffic: Filter.Status: "-1"`},
		{statuses: "!", want: `traffic: Filter.Status: "!"`},
	} {
		_, err := ParseFilter(list(test.methods), list(test.paths), list(test.statuses))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// A pattern matches like the regular expression with .* for each *.
func TestPathPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab*]{1,8}`).Draw(t, "pattern")
		value := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "path")
		p, why := parsePath(text)
		if why != "" {
			t.Fatal(why)
		}
		want := regexp.MustCompile("^" + strings.ReplaceAll(text, "*", ".*") + "$").MatchString(value)
		if got := matchPath(&p, []byte(value)); got != want {
			t.Fatalf("%s on %s: got %v, want %v", text, value, got, want)
		}
	})
}
