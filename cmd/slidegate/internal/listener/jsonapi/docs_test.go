package jsonapi

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// block is a code block of a document.
type block struct{ kind, text string }

func blocksOf(t *testing.T, path string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	for i, part := range strings.Split("\n"+string(text), "\n```") {
		if i%2 == 1 {
			kind, code, _ := strings.Cut(part, "\n")
			blocks = append(blocks, block{kind, code})
		}
	}
	return blocks
}

// words splits a command line as a shell does, as far as the document needs.
func words(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// run does what curl would do.
func run(t *testing.T, line string, hosts map[string]string) (response *http.Response, head bool) {
	t.Helper()
	method, url, body := http.MethodGet, "", ""
	header := http.Header{}
	given := words(line)
	for i := 1; i < len(given); i++ {
		switch given[i] {
		case "-i":
			head = true
		case "-H":
			i++
			name, value, _ := strings.Cut(given[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			method, body = http.MethodPost, given[i]
		default:
			host, path, _ := strings.Cut(given[i], "/")
			url = hosts[host] + "/" + path
		}
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	r.Header = header
	response, err = http.DefaultClient.Do(r)
	must(t, err)
	return response, head
}

// Every command of the document returns what the document says.
func TestDocument(t *testing.T) {
	blocks := blocksOf(t, "../../../../../docs/api.md")
	file, err := config.Parse("docs/api.md", []byte(blocks[0].text))
	must(t, err)
	store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return start }})
	must(t, err)
	g, err := gate.New(file, store, gate.Options{Key: gate.NewKey(nil, slog.New(slog.DiscardHandler))})
	must(t, err)
	t.Cleanup(func() { _ = g.Close() })
	api, err := New(g, Options{})
	must(t, err)
	public, admin := httptest.NewServer(api.Handler()), httptest.NewServer(api.AdminHandler())
	defer public.Close()
	defer admin.Close()
	hosts := map[string]string{"localhost:8080": public.URL, "localhost:8082": admin.URL}
	commands, reservation := 0, ""
	for i, b := range blocks {
		if b.kind != "sh" {
			continue
		}
		commands++
		response, head := run(t, strings.Replace(b.text, "RESERVATION", reservation, 1), hosts)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		_ = response.Body.Close()
		var reserved struct{ Reservation json.RawMessage }
		if json.Unmarshal(body, &reserved) == nil && reserved.Reservation != nil {
			reservation = string(reserved.Reservation)
		}
		if i+1 == len(blocks) || blocks[i+1].kind != "http" && blocks[i+1].kind != "json" {
			if response.StatusCode != 200 {
				t.Errorf("%s\ngot %d %s, want 200", b.text, response.StatusCode, body)
			}
			continue
		}
		got := strings.TrimSpace(string(body))
		if head {
			got = strings.TrimSpace(headOf(response) + "\n" + got)
		}
		if want := strings.TrimSpace(blocks[i+1].text); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", b.text, got, want)
		}
	}
	if commands < 8 {
		t.Errorf("found only %d commands; the test looks in the wrong place", commands)
	}
}

// headOf returns what curl -i prints, without what differs between requests.
func headOf(r *http.Response) string {
	text := fmt.Sprintf("HTTP/1.1 %s\n", r.Status)
	for _, name := range []string{"Cache-Control", "Content-Type", "Ratelimit", "Ratelimit-Policy", "Retry-After"} {
		if value := r.Header.Get(name); value != "" {
			text += name + ": " + value + "\n"
		}
	}
	return text
}
