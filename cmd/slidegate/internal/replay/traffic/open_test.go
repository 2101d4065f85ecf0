package traffic

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/clientip"
)

const combinedLine = `203.0.113.7 - - [15/Nov/2026:06:48:34 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"` + "\n"

func TestFilesThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	missing := filepath.Join(dir, "missing.log")
	for file, want := range map[string]string{
		missing:                          "no such file; check the path, or use - for standard input",
		dir:                              "it is a directory; name the files in it, such as " + dir + "/*.log",
		write("empty.log", ""):           "it is empty",
		write("blank.log", "\n \r\n\n"):  "it is empty",
		write("bom.log", "\xEF\xBB\xBF"): "it is empty",
		write("nul.log", "ab\x00\x01c"):  "it looks like a binary file; want an access log",
		write("bin.log", "\x7fELF\x02\x01\x01\x03\xff\xfe\xfd\xfc\xfb\n\xfa"): "it looks like a binary file",
		write("utf16.log", "\xFF\xFE1\x00.\x00"):                              "it looks like UTF-16 text; convert it to UTF-8 first",
		write("prose.log", "Dear \x1b[31mSir\n"): `Format: no known format matches the first line (Dear \x1b[31mSir); name one ` +
			`(lines, caddy, traefik, envoy, json, alb, cloudfront, haproxy, combined, common)`,
		write("poem.log", "\nRoses are red\nViolets are blue\n"): "Format: no known format matches any of the first 2 lines (Roses are red)",
		write("long.log", strings.Repeat("é", 3<<20)):            "Format: no known format matches the first line (" + strings.Repeat("é", 60) + ")",
	} {
		_, err := Open(file, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "traffic: "+file+": "+want) {
			t.Errorf("got  %v\nwant traffic: %s: %s", err, file, want)
		}
	}
}

// Fields that a format does not have are an error at once, which lists the fields it has.
func TestOptionsThatTheFormatLacks(t *testing.T) {
	filter := func(methods, paths, statuses []string) Filter {
		f, err := ParseFilter(methods, paths, statuses)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	const caddy = `{"ts":1794725314,"request":{"method":"GET"}}`
	const lines = `{"t":1794725314000,"key":"a"}`
	const envoy = `{"start_time":"2026-11-15T06:48:34Z","method":"GET"}`
	const common = `1.1.1.1 - - [15/Nov/2026:06:48:34 +0000] "GET / HTTP/1.1" 200 1`
	jsonFields := map[string]string{"time": "when"}
	for _, test := range []struct {
		text string
		opts Options
		want string
	}{
		{combinedLine, Options{Key: template(t, "header:X-Api-Key")}, "Key: the format combined has no header:X-Api-Key; it has " +
			"address, user, method, path, query, status, header:Referer and header:User-Agent"},
		{combinedLine, Options{Key: template(t, "{address} {host}")}, "Key: the format combined has no host; it has address, "},
		{combinedLine, Options{Key: template(t, "field:a")}, "Key: the format combined has no field:a; it has "},
		{combinedLine, Options{Key: template(t, "key")}, "Key: the format combined has no key; it has "},
		{combinedLine, Options{Cost: costOf(t, "field:a")}, "Cost: the format combined has no field:a; it has bytes"},
		{combinedLine, Options{Fields: map[string]string{"user": "u"}},
			"Fields: only JSON logs have field names, and the format combined is not JSON"},
		{common, Options{Key: template(t, "header:Referer")}, "Key: the format common has no header:Referer; it has " +
			"address, user, method, path, query and status"},
		{envoy, Options{Key: template(t, "user")}, "Key: the format envoy has no user; it has address, method, path, query, host, " +
			"status, header:NAME and field:PATH (or give the path of the user with fields: user=PATH)"},
		{lines, Options{Key: template(t, "address")}, "Key: the format lines has no address; it has key and field:PATH " +
			"(or give the path of the address with fields: address=PATH)"},
		{lines, Options{Key: template(t, "header:A")}, "Key: the format lines has no header:A; it has key and field:PATH"},
		{lines, Options{Cost: costOf(t, "bytes")}, "Cost: the format lines has no bytes; it has field:PATH (or give"},
		{lines, Options{Filter: filter([]string{"GET"}, nil, nil)}, "Filter.Method: the format lines has no method; it has no such fields"},
		{lines, Options{Filter: filter(nil, []string{"!/"}, nil)}, "Filter.Path: the format lines has no path; "},
		{lines, Options{Filter: filter(nil, nil, []string{"2xx"})}, "Filter.Status: the format lines has no status; "},
		{lines, Options{Format: "json"}, "Fields: the format json needs the path of the time, such as time=timestamp"},
		{lines, Options{Format: "json", Fields: jsonFields}, "Key: the format json has no address; it has field:PATH (or "},
		{caddy, Options{Fields: map[string]string{"tim": "ts"}}, `Fields: unknown field "tim"; did you mean time? (want time, ` +
			`address, user, method, path, host, status, bytes, key, cost)`},
		{caddy, Options{Fields: map[string]string{"time": "a..b"}}, "Fields: time=a..b: want names separated by dots"},
		{caddy, Options{Grouping: clientip.Grouping{V4: 33}}, "Grouping.V4: must be a prefix length"},
		{caddy, Options{Format: "combind"}, `Format: unknown format "combind"; did you mean combined? (want lines, caddy, traefik, envoy, json, ` +
			"alb, cloudfront, haproxy, combined, common, auto, or a description such as '{address} [{time}] \"{request}\"')"},
	} {
		_, err := NewReader("day.log", strings.NewReader(test.text), test.opts)
		if err == nil || !strings.HasPrefix(err.Error(), "traffic: day.log: "+test.want) {
			t.Errorf("got  %v\nwant traffic: day.log: %s", err, test.want)
		}
	}
}

// The detected format is the one that matches the most of the first lines, not only the first one.
func TestDetection(t *testing.T) {
	const common = `1.1.1.1 - - [15/Nov/2026:06:48:34 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	const line = `{"t":1794725314000,"key":"a"}` + "\n"
	for text, want := range map[string]string{
		combinedLine:                                "combined log",
		common:                                      "common log",
		combinedLine + combinedLine + common:        "combined log", // with a line that is cut off
		combinedLine + common + common:              "common log",   // which matches them all
		"server started\n\n\n" + combinedLine:       "combined log",
		"\xEF\xBB\xBF" + line:                       "JSON lines",
		"\x00\x00\x00\n" + line:                     "JSON lines", // as left by copytruncate
		strings.Repeat("noise\n", 99) + line:        "JSON lines",
		strings.TrimSuffix(line, "\n"):              "JSON lines",
		strings.ReplaceAll(line+line, "\n", "\r\n"): "JSON lines",
		`{"level":"info","ts":1794725314,"msg":"start"}` + "\n" + line:      "JSON lines",
		strings.Repeat(line, 20_000) + strings.Repeat(combinedLine, 50_000): "JSON lines",
	} {
		r, err := NewReader("log", strings.NewReader(text), Options{})
		if err != nil {
			t.Errorf("%.40q: got error %v, want none", text, err)
			continue
		}
		if got := r.Source().Format; got != want {
			t.Errorf("%.40q: got %s, want %s", text, got, want)
		}
	}
	r, err := NewReader("log", strings.NewReader("\xEF\xBB\xBF"+line+line), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, r); len(got) != 2 {
		t.Errorf("got %d requests after a byte order mark, want 2", len(got))
	}
	if _, err := NewReader("log", strings.NewReader(strings.Repeat("noise\n", 100)+line), Options{}); err == nil {
		t.Error("got no error after a hundred lines of noise")
	}
}

func TestUnreadableLines(t *testing.T) {
	text := "start\n\n" + combinedLine + "\xff\x00é" + strings.Repeat("x", 200) + "\r\n" + strings.Repeat("y", maxLine+1) + "\n" + combinedLine +
		"3\n4\n5\n"
	r, err := NewReader("log", strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, r); len(got) != 2 {
		t.Errorf("got %d requests, want 2", len(got))
	}
	const why = "address: no address at the beginning, at byte 1"
	want := []BadLine{
		{1, "start", why},
		{4, `\xff\x00é` + strings.Repeat("x", 116), why}, // the first two bytes are two, é is two, of 120
		{5, strings.Repeat("y", 120), "line: longer than 1 MiB"},
		{7, "3", why},
		{8, "4", why},
	}
	source := r.Source()
	if fmt.Sprint(source.Examples) != fmt.Sprint(want) {
		t.Errorf("got examples %+v, want %+v", source.Examples, want)
	}
	if source.Lines != 8 || source.Requests != 2 || source.Unreadable != 6 {
		t.Errorf("got %d lines, %d requests, %d unreadable, want 8, 2, 6", source.Lines, source.Requests, source.Unreadable)
	}
}

// A log without readable lines ends with an error; one that the filter excludes completely does not.
func TestNothingReadable(t *testing.T) {
	r, err := NewReader("day.log", strings.NewReader("\n"+combinedLine+combinedLine), Options{Format: "caddy"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = readUntilError(r)
	want := "traffic: day.log: no line could be read in the format caddy; line 2: JSON: the line is not an object (203.0.113.7 - - ["
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	none, _ := ParseFilter([]string{"PATCH"}, nil, nil)
	r, err = NewReader("day.log", strings.NewReader(combinedLine+"noise\n"), Options{Filter: none})
	if err != nil {
		t.Fatal(err)
	}
	n, err := readUntilError(r)
	if source := r.Source(); n != 0 || err != io.EOF || source.Filtered != 1 || source.Unreadable != 1 || source.Requests != 0 {
		t.Errorf("got %d requests, %v, %+v, want none, io.EOF, and one filtered", n, err, source)
	}
}

func TestCostOfLines(t *testing.T) {
	const text = `{"t":1794725314000,"key":"a","cost":5,"tokens":7}` + "\n" +
		`{"t":1794725314000,"key":"a","cost":"many","tokens":"8"}` + "\n" +
		`{"t":1794725314000,"key":"a","tokens":-1}` + "\n"
	for _, test := range []struct {
		opts Options
		want string // the costs of the readable lines
	}{
		{Options{}, "5 1"},
		{Options{IgnoreOwnCost: true}, "1 1 1"},
		{Options{Cost: costOf(t, "3")}, "3 3 3"},
		{Options{Cost: costOf(t, "0")}, "0 0 0"},
		{Options{Cost: costOf(t, "field:tokens")}, "7 8"},
		{Options{Fields: map[string]string{"cost": "tokens"}}, "7 8"},
	} {
		r, err := NewReader("log", strings.NewReader(text), test.opts)
		if err != nil {
			t.Fatal(err)
		}
		var costs []string
		for _, line := range read(t, r) {
			costs = append(costs, line[strings.LastIndexByte(line, ' ')+1:])
		}
		if got := strings.Join(costs, " "); got != test.want {
			t.Errorf("%+v: got costs %s, want %s", test.opts, got, test.want)
		}
	}
}

// Given names also apply to lines that the fast path could parse.
func TestOtherNamesInLines(t *testing.T) {
	const text = `{"t":1794725314000,"key":"7","cost":1794725315000}`
	for _, test := range []struct{ name, path, want string }{
		{"cost", "key", "06:48:34 7 7"},
		{"key", "cost", "06:48:34 1794725315000 1794725315000"},
		{"time", "cost", "06:48:35 7 1794725315000"},
	} {
		r, err := NewReader("log", strings.NewReader(text), Options{Fields: map[string]string{test.name: test.path}})
		if err != nil {
			t.Fatal(err)
		}
		same(t, read(t, r), []string{test.want})
	}
}

// Missing bytes are not 0 bytes: otherwise every request would be free if the server does not log them.
func TestMissingBytes(t *testing.T) {
	const text = `{"ts":1794725314,"request":{"method":"GET","remote_ip":"1.1.1.1"},"size":3}` + "\n" +
		`{"ts":1794725314,"request":{"method":"GET","remote_ip":"1.1.1.1"}}` + "\n"
	r, err := NewReader("log", strings.NewReader(text), Options{Cost: costOf(t, "bytes")})
	if err != nil {
		t.Fatal(err)
	}
	same(t, read(t, r), []string{"06:48:34 1.1.1.1 3"})
	if examples := r.Source().Examples; len(examples) != 1 || examples[0].Why != "cost: bytes is missing" {
		t.Errorf("got examples %v", examples)
	}
}

func TestGrouping(t *testing.T) {
	r, err := NewReader("log", strings.NewReader(combinedLine), Options{
		Grouping: clientip.Grouping{V4: 24}, Key: template(t, "{address} {path} {address}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, read(t, r), []string{"06:48:34 203.0.113.0/24 /a 203.0.113.0/24 1"})
}

func TestClosed(t *testing.T) {
	r, err := Open("testdata/common.log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Next(&Line{}); err == nil || err == io.EOF {
		t.Errorf("a closed reader returned %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// A line that is not completely buffered must not be used for detection: a combined line that is cut off looks like a
// common one.
func TestFirstLines(t *testing.T) {
	for _, test := range []struct {
		text  string
		ended bool
		want  int
	}{
		{"a\nb", false, 1}, {"a\nb", true, 2}, {"a", false, 1}, {"\n \r\na\r\n", true, 1}, {strings.Repeat("a\n", 200), true, 100},
	} {
		if got := firstLines([]byte(test.text), test.ended); len(got) != test.want {
			t.Errorf("%.10q, ended %v: got %d lines, want %d", test.text, test.ended, len(got), test.want)
		}
	}
}
