package main

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	anchor    = regexp.MustCompile(`<h\d id="([^"]+)"`)
)

// Every link of the site leads to one of its pages, an anchor on one, a file that was copied, or another site.
func TestSiteIsWhole(t *testing.T) {
	to := t.TempDir()
	if err := build("../..", to); err != nil {
		t.Fatal(err)
	}
	anchors, links := map[string]bool{}, map[string][]string{}
	err := filepath.WalkDir(to, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		html, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		anchors[file] = true
		for _, match := range anchor.FindAllSubmatch(html, -1) {
			anchors[file+"#"+string(match[1])] = true
		}
		if filepath.Ext(file) == ".html" {
			for _, match := range reference.FindAllSubmatch(html, -1) {
				links[file] = append(links[file], string(match[1]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(links) < 30 {
		t.Errorf("the site has %d pages, want at least 30", len(links))
	}
	for file, found := range links {
		for _, link := range found {
			if target := within(t, file, link); target != "" && !anchors[target] {
				t.Errorf("%s: the link %s leads nowhere", strings.TrimPrefix(file, to), link)
			}
		}
	}
}

// within returns the file and the anchor that a link leads to, or "" if it leads to another site.
func within(t *testing.T, file, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	if u.IsAbs() {
		return ""
	}
	target := file
	if u.Path != "" {
		target = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
	}
	if u.Fragment != "" {
		target += "#" + u.Fragment
	}
	return target
}

func TestDeadLink(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"bench", "docs", "examples"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "README.md"), []byte("[there](docs/gone.md)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := build(root, t.TempDir()); err == nil || !strings.Contains(err.Error(), "docs/gone.md") {
		t.Errorf("got error %v, want one that names docs/gone.md", err)
	}
}
