package docs

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// questions are what new users ask. Each is answered within two clicks from README.md: by a sentence in the section of the last link.
var questions = []struct {
	question string
	clicks   []string // links, as paths from the root of the repository
	answer   string
}{
	{"What happens when Redis is down?", []string{"docs/getting-started.md#when-redis-is-down"},
		"The default is `local`: the same limits, counted in this process."},
	{"How do I test my handler?", []string{"docs/getting-started.md#tests"},
		"give it a `memstore` and run the test inside `synctest.Test`"},
	{"How do I block a client now?", []string{"docs/rulings.md"},
		"`slidegate block KEY` | refuses all requests of the key"},
	{"Who is being limited right now?", []string{"docs/service.md"},
		"the keys that were refused the most"},
	{"What do I do when an alert pages me?", []string{"docs/runbook.md"},
		"What to do about each alert"},
	{"What happens to requests when I deploy a new version?", []string{"docs/production.md", "docs/restarts.md"},
		"To restart the [service](service.md) or the [proxy](proxy.md) without a failed request"},
	{"Which algorithm, and what about bursts?", []string{"docs/choosing.md"},
		"| bursts after a quiet time, and an even rate in the long run | `10/1s token-bucket burst=50` |"},
	{"How much memory does a key take?", []string{"docs/stores.md"},
		"Bytes for each key of 16 bytes"},
	{"How do I move from httprate?", []string{"docs/migrate/README.md", "docs/migrate/httprate.md"},
		"replace `httprate.LimitBy` with `httplimit.Limit`"},
	{"How do ten servers share one limit?", []string{"docs/scaling.md"},
		"Give all ten servers the same store"},
	{"How do I pay for a language model by tokens?", []string{"docs/llm-budgets.md"},
		"Reserve the most that a call can cost, make the call, and settle at what it used."},
	{"Does it need Redis?", []string{"docs/nats.md"},
		"Three such processes form a cluster that survives the loss of any one of them, with no other program to install."},
	{"Which headers does a client get: what is X-RateLimit-Reset?", []string{"docs/http.md"},
		"`X-RateLimit-Reset` as Unix time"},
	{"How do I limit by API key, in gin, with Redis?", []string{"docs/recipes/README.md", "docs/recipes/api-key-gin-redis.md"},
		"A gin server that admits each API key three times a minute."},
	{"How do I limit WebSockets?", []string{"docs/recipes/README.md", "docs/recipes/websockets.md"},
		"lets each client have two connections open"},
	{"How do I use it from Python?", []string{"docs/recipes/README.md", "docs/recipes/python-and-javascript.md"},
		"with nothing but their standard library"},
	{"How do I run it on Kubernetes?", []string{"deploy/README.md"},
		"If you have Redis, take Redis; if you have nothing, take NATS."},
	{"How do I obey the limits of others?", []string{"docs/http.md#the-clients-side"},
		"The transport delays requests until the time that the server sent"},
	{"Can a client cheat it?", []string{"docs/choosing.md", "docs/worst-cases.md"},
		"Every figure on this page was found by a program that tries to cheat."},
	{"How do I change a policy while it runs?", []string{"docs/production.md"},
		"The instances notice the change, and reject an invalid file as a whole"},
}

// TestQuestions checks that the links to each answer, and the answers, are there.
func TestQuestions(t *testing.T) {
	pages := map[string]*page{}
	for _, p := range readPages(t) {
		pages[p.path] = p
	}
	for _, q := range questions {
		at := pages["README.md"]
		if len(q.clicks) == 0 || len(q.clicks) > 2 {
			t.Errorf("%s: %d clicks, want 1 or 2", q.question, len(q.clicks))
		}
		anchor := ""
		for _, click := range q.clicks {
			leads := func(l link) bool {
				file, fragment, _ := strings.Cut(l.target, "#")
				to := path.Join(path.Dir(at.path), file)
				if file == "" {
					to = at.path
				}
				if fragment != "" {
					to += "#" + fragment
				}
				return to == click
			}
			if !slices.ContainsFunc(at.links, leads) {
				t.Errorf("%s: %s has no link to %s", q.question, at.path, click)
			}
			var file string
			file, anchor, _ = strings.Cut(click, "#")
			if at = pages[filepath.ToSlash(file)]; at == nil {
				t.Fatalf("%s: no page %s", q.question, file)
			}
		}
		if !strings.Contains(strings.Join(strings.Fields(section(at, anchor)), " "), q.answer) {
			t.Errorf("%s: %s does not answer with %q", q.question, q.clicks[len(q.clicks)-1], q.answer)
		}
	}
}

// section returns the text below the heading with an anchor, with the sections within it, or the whole page without an anchor.
func section(p *page, anchor string) string {
	if anchor == "" {
		return string(p.source)
	}
	var text strings.Builder
	level, fenced := 0, false
	for line := range strings.Lines(string(p.source)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if heading := strings.TrimLeft(line, "#"); !fenced && len(heading) < len(line) && heading[0] == ' ' {
			switch depth := len(line) - len(heading); {
			case anchorOf(heading) == anchor:
				level = depth
			case depth <= level:
				level = 0
			}
		}
		if level > 0 {
			text.WriteString(line)
		}
	}
	return text.String()
}
