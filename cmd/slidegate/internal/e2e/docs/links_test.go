package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// unresolved matches a reference link whose reference is not defined.
var unresolved = regexp.MustCompile(`\[[^\]\[]+\]\[([^\]\[]+)\]`)

// TestLinks checks that every link leads to a file of the repository, and to a heading if it has an anchor. Links to other sites
// are only parsed: the tests need no network.
func TestLinks(t *testing.T) {
	pages := readPages(t)
	report(t, checkLinks(root, pages))
	report(t, checkReached(pages))
	links := 0
	for _, p := range pages {
		links += len(p.links)
	}
	t.Logf("%d links on %d pages", links, len(pages))
}

func checkLinks(folder string, pages []*page) (problems []problem) {
	byPath := map[string]*page{}
	for _, p := range pages {
		byPath[p.path] = p
	}
	for _, p := range pages {
		for _, l := range p.links {
			if wrong := checkLink(folder, byPath, p, l.target); wrong != "" {
				problems = append(problems, p.problemf(l.line, "%s", wrong))
			}
		}
	}
	return problems
}

// checkReached finds pages that no other page links to. Decisions are exempt, since readers find them in their folder.
func checkReached(pages []*page) (problems []problem) {
	reached := map[string]bool{}
	for _, p := range pages {
		for _, l := range p.links {
			if file, _, _ := strings.Cut(l.target, "#"); file != "" && path.Join(path.Dir(p.path), file) != p.path {
				reached[path.Join(path.Dir(p.path), file)] = true
			}
		}
	}
	for _, p := range pages {
		folder := path.Dir(p.path)
		if strings.HasPrefix(p.path, "docs/") && !reached[p.path] && (path.Base(p.path) != "README.md" || !reached[folder]) {
			problems = append(problems, p.problemf(1, "no page links to this one: add it to docs/README.md"))
		}
	}
	return problems
}

// checkLink returns the problem with a link, or "".
func checkLink(folder string, pages map[string]*page, p *page, target string) string {
	if strings.HasPrefix(target, "[") {
		return "the link " + target + " is not defined on this page"
	}
	parsed, err := url.Parse(target)
	if err != nil {
		return "the link " + target + " cannot be parsed: " + err.Error()
	}
	if parsed.Scheme != "" {
		if parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" {
			return "the link " + target + " is neither https://... nor the path of a file"
		}
		return ""
	}
	file := p.path
	if parsed.Path != "" {
		file = path.Join(path.Dir(p.path), parsed.Path)
	}
	if file == ".." || strings.HasPrefix(file, "../") || strings.HasPrefix(parsed.Path, "/") {
		return "the link " + target + " leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(file))); err != nil {
		return "the link " + target + " leads nowhere: no file " + file
	}
	if linked := pages[file]; linked != nil && parsed.Fragment != "" && !linked.anchors[parsed.Fragment] {
		return "the link " + target + " leads nowhere: " + file + " has no heading #" + parsed.Fragment
	}
	return ""
}

// anchorOf returns the anchor of a heading as GitHub makes it: in lower case, with hyphens for spaces and without punctuation.
func anchorOf(heading string) string {
	var anchor strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			anchor.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			anchor.WriteRune(r)
		}
	}
	return anchor.String()
}

func TestAnchors(t *testing.T) {
	for heading, want := range map[string]string{
		"Routers":                          "routers",
		"What is not promised, and why":    "what-is-not-promised-and-why",
		"`store_timeout`: how long":        "store_timeout-how-long",
		"Redis & Valkey – one page":        "redis--valkey--one-page",
		"Was ist übrig? (2)":               "was-ist-übrig-2",
		"v0.1.0 - 2026-01-02":              "v010---2026-01-02",
		"100/1m, `60/1m sliding-window` +": "1001m-601m-sliding-window-",
	} {
		p := parsePage("a.md", []byte("# "+heading+"\n\n# "+heading+"\n"))
		if !p.anchors[want] || !p.anchors[want+"-1"] {
			t.Errorf("the heading %q has the anchors %v, want %s and %s-1", heading, p.anchors, want, want)
		}
	}
}
