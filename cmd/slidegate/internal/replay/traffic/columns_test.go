package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// described are the published formats as a user could describe them, with other columns than the formats that are built
// in: the parts of a request instead of {request}, no prefix, and what a sample always has is not optional.
var described = map[string]string{
	"common.log":   `{address} {-} {user} [{time}] "{method} {path} {-}" {status} {bytes}`,
	"combined.log": `{address} {-} {user} [{time}] "{request}" {status} {bytes} "{header:Referer}" "{header:User-Agent}"`,
	"haproxy.log":  `{...}{address:port} [{time}] {-} {-} {-} {status} {bytes} {-} {-} {-} {-} {-} {-}"{request#}"`,
	"alb.log": `{...}{time} {-} {address:port} {-} {-} {-} {-} {status} {-} {-} {bytes} "{request:url}" "{header:User-Agent}"{?} ` +
		`{-} {-} {-} "{-}" "{-}" "{-}" {-} {time}`,
	"cloudfront.log": `{date}\t{time}\t{-}\t{bytes}\t{address}\t{method}\t{-}\t{path}\t{status}\t{header:Referer%}\t{header:User-Agent%}\t` +
		`{query}\t{header:Cookie%}\t{-}\t{-}\t{host}\t{-}\t{-}\t{-}\t{header:X-Forwarded-For%}`,
}

// A published format gives the same requests, whether the user describes it or it is built in.
func TestDescribedFormats(t *testing.T) {
	for file, description := range described {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		own := everything(t, file, string(text), Options{Format: strings.TrimSuffix(file, ".log")})
		if len(own) < 4 {
			t.Errorf("%s: got only %d requests to compare", file, len(own))
		}
		_, rest, _ := strings.Cut("\n"+string(text), "\n")
		for strings.HasPrefix(rest, "#") {
			_, rest, _ = strings.Cut(rest, "\n") // only CloudFront's own format has comments
		}
		same(t, everything(t, file, rest, Options{Format: description}), own)
	}
}

// everything returns all that a log has about its requests.
func everything(t *testing.T, file, text string, opts Options) (all []string) {
	t.Helper()
	key := map[string]string{
		"common.log": "{address}|{user}|{method}|{path}|{query}|{status}", "combined.log": "{address}|{user}|{path}|{query}|{header:Referer}",
		"haproxy.log": "{address}|{method}|{path}|{query}|{status}", "alb.log": "{address}|{method}|{host}|{path}|{query}|{status}",
		"cloudfront.log": "{address}|{host}|{query}|{header:Referer}|{header:Cookie}|{header:X-Forwarded-For}",
	}
	opts.Key, opts.Cost = template(t, key[file]), costOf(t, "bytes")
	r, err := NewReader(file, strings.NewReader(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	var line Line
	for r.Next(&line) == nil {
		all = append(all, fmt.Sprintf("%s %s %d %s %q", clockText(int64(line.At)), line.Key, line.Cost, line.Time, line.About))
	}
	return append(all, fmt.Sprint(r.Source().Unreadable, " unreadable"))
}

func TestOwnFormats(t *testing.T) {
	for _, tt := range []struct{ format, line, key, want string }{
		// nginx with a host in front and the time of the response at the end
		{`{host} {address} - {user} [{time}] "{request}" {status} {bytes} {-}`,
			`shop.example:443 203.0.113.7 - - [15/Nov/2026:06:48:34 +0000] "GET /a?b HTTP/1.1" 200 5 0.002`,
			"{address} {host} {method} {path} {query}", "06:48:34 203.0.113.7 shop.example GET /a b 1"},
		{`{time},{key},{cost}`, `2026-11-15T06:48:34.5Z,alice and bob,7,more`, "", "06:48:34.5 alice and bob 7"},
		{`{time}\t{key}`, "1794725314\ta b", "", "06:48:34 a b 1"},
		{`{time}|{address}|{header:x-api-key}|{method}|{path%}`, `1794725314|192.0.2.1|k-1|get|/a%20b?c`, "{header:X-Api-Key} {method} {path} {query}", "06:48:34 k-1 GET /a%20b c 1"},
		{`[{time}] {address} "{method} {path} {-}" {status}`, `[15/Nov/2026:06:48:34 +0000] 192.0.2.1 "GET /a HTTP/1.1" 200`, "{address} {method} {path} {status}", "06:48:34 192.0.2.1 GET /a 200 1"},
		{`{date} {time} {address}`, `2026-11-15 06:48:34 192.0.2.1`, "", "06:48:34 192.0.2.1 1"},
		{`({time}) {user} <{address}>`, `(1794725314) John Doe <192.0.2.1> and so on`, "{user} {address}", "06:48:34 John%20Doe 192.0.2.1 1"},
	} {
		opts := Options{Format: tt.format}
		if tt.key != "" {
			opts.Key = template(t, tt.key)
		}
		r, err := NewReader("log", strings.NewReader(tt.line), opts)
		if err != nil {
			t.Errorf("%s: %v", tt.format, err)
			continue
		}
		same(t, read(t, r), []string{tt.want})
	}
}

func TestWrongDescriptions(t *testing.T) {
	for format, want := range map[string]string{
		`{adress} {time}`:         `column 1, byte 1: unknown column {adress}; did you mean {address}? (want time, date, address, `,
		`{time} {address`:         `column 2, byte 8: the brace is not closed`,
		`{time} {user}{address}`:  `column 3, byte 14: {address} follows {user} without text between them, so nothing tells where one ends`,
		`{address} {status}`:      `there is no {time}, or it is after {?}`,
		`{address}{?} {time}`:     `there is no {time}, or it is after {?}`,
		`{time} {...} {address}`:  `byte 8: {...} must be at the beginning; use {-} to ignore a column`,
		`{time} {header:}`:        `column 2, byte 8: unknown column {header:}`,
		`"{time}" {x} "{header}"`: `column 2, byte 10: unknown column {x}`,
	} {
		_, err := NewReader("day.log", strings.NewReader("x"), Options{Format: format})
		if err == nil || !strings.HasPrefix(err.Error(), "traffic: day.log: Format: "+want) {
			t.Errorf("%s: got %v\nwant traffic: day.log: Format: %s", format, err, want)
		}
	}
}

// The reason why a line is invalid names the column and where the line stops making sense.
func TestReasonsNameThePosition(t *testing.T) {
	r, err := NewReader("log", strings.NewReader("1794725314|192.0.2.1|200\n1794725314|192.0.2.1|many\n"), Options{Format: "{time}|{address}|{status}"})
	if err != nil {
		t.Fatal(err)
	}
	read(t, r)
	if got, want := r.Source().Examples[0].Why, "status: no number after {address}, at byte 22"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
