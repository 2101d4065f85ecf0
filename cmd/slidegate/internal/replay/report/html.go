package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/look"
)

//go:embed page/page.html page/page.css page/page.js page/echarts.common.min.js
var files embed.FS

// block is an inline style or script, with the hash that allows it in the page's Content-Security-Policy.
type block struct {
	Element template.HTML
	hash    string
}

// assets are the parts of the page that are the same in every report.
type assets struct {
	page   *template.Template
	Policy string
	Style  template.HTML
	// Library is Apache ECharts, and Script is page.js, which uses it.
	Library, Script template.HTML
}

// load reads the assets once. They are embedded, so errors are bugs and panic.
var load = sync.OnceValue(func() *assets {
	style := element("style", look.CSS+read("page.css"))
	library, script := element("script", read("echarts.common.min.js")), element("script", read("page.js"))
	return &assets{
		page:  template.Must(template.New("page.html").Funcs(pageWords).ParseFS(files, "page/page.html")),
		Style: style.Element, Library: library.Element, Script: script.Element,
		Policy: "default-src 'none'; style-src " + style.hash + "; script-src " + library.hash + " " + script.hash +
			"; img-src data:; base-uri 'none'; form-action 'none'",
	}
})

// read returns a file of the page.
func read(name string) string {
	content, err := files.ReadFile("page/" + name)
	if err != nil {
		panic("report: " + err.Error())
	}
	return string(content)
}

// element returns an element with the unmodified content.
func element(tag, content string) block {
	if strings.ContainsRune(content, '\r') || strings.Contains(strings.ToLower(content), "</"+tag) || strings.Contains(content, "<!--") {
		panic("report: a " + tag + " of the page cannot be embedded unmodified")
	}
	sum := sha256.Sum256([]byte(content))
	return block{
		Element: template.HTML("<" + tag + ">" + content + "</" + tag + ">"), // it is embedded, and so trusted
		hash:    "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
	}
}

// pageWords are the template functions, which format as the text report does.
var pageWords = template.FuncMap{
	"together": together, "escape": escape, "escapeLines": escapeLines, "bar": barLength, "upper": upperFirst,
	"hint":  func(text string) string { return visible(text, hintWidth) },
	"table": func(id string, t table) any { return struct{ ID, Table any }{id, &t} },
}

// upperFirst returns text with its first letter in upper case: headings are in lower case in the text report.
func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// together keeps a number and its percent sign on one line.
func together(text string) string { return strings.ReplaceAll(text, " %", "\u00a0%") }

// barLength returns the length of a bar in a drawing 100 units wide; a positive part is always visible.
func barLength(part, whole int64) string {
	if part <= 0 || whole <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", min(100, max(1.5, 100*float64(part)/float64(whole))))
}

// HTML writes d as a self-contained page that needs no network and no other files. All tables and figures are plain
// HTML and work without scripts; the charts are drawn by a copy of Apache ECharts in the page, which is most of its 800
// kB.
func HTML(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	p := newPage(d)
	drawn, err := json.Marshal(p.drawing()) // escapes <, > and &, so no text can end the script element
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	p.Data = template.JS(drawn)
	p.assets = load()
	var b strings.Builder
	if err := p.page.Execute(&b, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
