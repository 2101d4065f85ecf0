package main

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// source is the URL of files that are not pages, such as Go files.
const source = "https://github.com/slidegate/slidegate/blob/main/"

// site is a site under construction.
type site struct {
	root   string
	pages  map[string]string // from Markdown files to pages
	copies map[string]bool   // files that pages refer to, to be copied
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// render makes the page of a Markdown file.
func (s *site) render(file string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(s.root, file))
	if err != nil {
		return nil, err
	}
	ids := parser.WithContext(parser.NewContext(parser.WithIDs(anchors{})))
	document := markdown.Parser().Parse(text.NewReader(content), ids)
	title := file
	err = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := node.(type) {
		case *ast.Heading:
			if n.Level == 1 {
				title = string(n.Lines().Value(content))
			}
		case *ast.Link:
			n.Destination, err = s.destination(file, n.Destination)
		case *ast.Image:
			n.Destination, err = s.destination(file, n.Destination)
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return nil, err
	}
	var body, html bytes.Buffer
	if err := markdown.Renderer().Render(&body, content, document); err != nil {
		return nil, err
	}
	up := strings.Repeat("../", strings.Count(file, "/"))
	err = layout.Execute(&html, map[string]any{"Title": title, "Up": up, "Body": template.HTML(body.String())})
	return html.Bytes(), err
}

// destination returns the target of a link in the site: a page, a file that is copied, or the source.
func (s *site) destination(file string, link []byte) ([]byte, error) {
	u, err := url.Parse(string(link))
	if err != nil || u.IsAbs() || u.Path == "" {
		return link, err
	}
	target := path.Join(path.Dir(file), u.Path)
	info, err := os.Stat(filepath.Join(s.root, target))
	if err != nil {
		return nil, fmt.Errorf("the link %s leads nowhere", link)
	}
	page, isPage := s.pages[target]
	switch {
	case isPage:
		u.Path = strings.Repeat("../", strings.Count(file, "/")) + page
	case strings.HasPrefix(target, "docs/") && !info.IsDir():
		s.copies[target] = true
	default:
		u.Path = source + target
		return []byte(u.Path), nil
	}
	return []byte(u.String()), nil
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; --text: light-dark(#1f2328, #f0f6fc); --quiet: light-dark(#59636e, #9198a1); --page: light-dark(#fff, #0d1117);
	--line: light-dark(#d1d9e0, #3d444d); --code: light-dark(#f6f8fa, #151b23); --link: light-dark(#0969da, #4493f8) }
body { margin: 0 auto; max-width: 62rem; padding: 0 1.25rem 4rem; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--page) }
nav { display: flex; flex-wrap: wrap; gap: 1.25rem; padding: 1rem 0; border-bottom: 1px solid var(--line) }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
h1, h2, h3 { line-height: 1.25; margin: 2rem 0 1rem } h2 { border-bottom: 1px solid var(--line); padding-bottom: .3rem }
pre, code { font: .875em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 6px } code { padding: .15em .3em }
pre { padding: 1rem; overflow-x: auto } pre code { padding: 0; font-size: 1em }
table { display: block; overflow-x: auto; border-collapse: collapse } th, td { border: 1px solid var(--line); padding: .4rem .75rem; text-align: left; vertical-align: top }
img { max-width: 100% }
</style>
<nav><a href="{{.Up}}index.html"><b>Slidegate</b></a> <a href="{{.Up}}docs/getting-started.html">Getting started</a> <a href="{{.Up}}docs/choosing.html">Choosing a limit</a>
<a href="{{.Up}}docs/service.html">Service</a> <a href="{{.Up}}docs/guarantees.html">Guarantees</a> <a href="{{.Up}}docs/index.html">All pages</a></nav>
<main>
{{.Body}}</main>
</html>
`))
