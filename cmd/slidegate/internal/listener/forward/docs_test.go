package forward

import (
	"os"
	"strings"
	"testing"
)

// The document shows the files that the tests run, and its command works.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/forward-auth.md")
	must(t, err)
	doc := string(text)
	for _, path := range []string{"nginx/slidegate.conf", "caddy/Caddyfile", "traefik/dynamic.yml"} {
		shown, err := os.ReadFile("../../../../../examples/" + path)
		must(t, err)
		if !strings.Contains(doc, "\n"+string(shown)+"```\n") || !strings.Contains(doc, "(../examples/"+path+")") {
			t.Errorf("the document does not show examples/%s", path)
		}
	}
	_, command, found := strings.Cut(doc, "curl -i localhost:8080")
	command, _, _ = strings.Cut(command, "\n")
	var lines []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			lines = append(lines, part)
		}
	}
	if !found || len(lines) != 3 {
		t.Fatalf("command not found: %q", lines)
	}
	s := newService(t, Options{}, false)
	for range 2 {
		if got := s.send(loopback, Path, lines...); got.StatusCode != 200 {
			t.Errorf("got %s, want 200", summary(got))
		}
	}
}
