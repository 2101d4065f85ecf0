package docs

import (
	"fmt"
	"go/token"
	"go/types"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/slidegate/slidegate"

// TestNames checks that names of this project between backticks exist: packages and what they export, flags, environment variables
// and metrics.
func TestNames(t *testing.T) {
	problems, count := checkNames(t, readPages(t))
	report(t, problems)
	t.Logf("%d names", count)
}

// isHistory reports whether a page may have names that no longer exist.
func isHistory(p *page) bool {
	return p.path == "CHANGELOG.md" || strings.HasPrefix(p.path, "docs/decisions/")
}

// mentionsPeers reports whether a page has Go names of other libraries, whose packages and types may have the same names as ours.
func mentionsPeers(p *page) bool {
	return p.path == "bench/README.md" || p.path == "docs/comparison.md" || strings.HasPrefix(p.path, "docs/migrate/")
}

func checkNames(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	api := readAPI(t)
	metrics := metricsOf(t)
	for _, p := range pages {
		if isHistory(p) {
			continue
		}
		for _, s := range p.spans {
			checks := []func(string) (known, wrong []string){flagNames, variableNames, metrics.names}
			if !mentionsPeers(p) {
				checks = append(checks, api.names)
			}
			for _, check := range checks {
				known, wrong := check(s.code)
				count += len(known) + len(wrong)
				for _, name := range wrong {
					problems = append(problems, p.problemf(s.line, "unknown name %s in `%s`", name, s.code))
				}
			}
		}
	}
	return problems, count
}

// sorted separates names that exist from unknown ones.
func sorted(names []string, exists func(string) bool) (known, wrong []string) {
	for _, name := range names {
		if exists(name) {
			known = append(known, name)
		} else {
			wrong = append(wrong, name)
		}
	}
	return known, wrong
}

// helpTexts returns the help of all commands of the program.
var helpTexts = sync.OnceValue(func() string {
	overview, err := exec.Command(slidegate, "help").Output()
	if err != nil {
		panic(fmt.Sprintf("slidegate help: %v", err))
	}
	var texts strings.Builder
	for _, match := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)  `).FindAllStringSubmatch(string(overview), -1) {
		help, err := exec.Command(slidegate, append(append([]string{"help"}, strings.Fields(match[1])...), "all")...).Output()
		if err != nil {
			panic(fmt.Sprintf("slidegate help %s all: %v", match[1], err))
		}
		texts.Write(help)
	}
	return texts.String()
})

// flags and variables return the flags and environment variables of the program.
var (
	flags     = sync.OnceValue(func() []string { return regexp.MustCompile(`--[a-z0-9-]+[a-z0-9]`).FindAllString(helpTexts(), -1) })
	variables = sync.OnceValue(func() []string {
		return regexp.MustCompile(`SLIDEGATE_[A-Z0-9_]+[A-Z0-9]`).FindAllString(helpTexts(), -1)
	})
)

var (
	flagPattern     = regexp.MustCompile(`(?:^|[ (])(--[a-z][a-z0-9-]*)`)
	variablePattern = regexp.MustCompile(`SLIDEGATE_[A-Z0-9_]*[A-Z0-9]`)
	metricPattern   = regexp.MustCompile(`\bslidegate_[a-z_]+[a-z]`)
)

// flagNames finds flags in code that is a flag with its value or a command of this project. Commands of other programs have other
// flags.
func flagNames(code string) (known, wrong []string) {
	if !strings.HasPrefix(code, "--") && !strings.HasPrefix(code, "slidegate ") {
		return nil, nil
	}
	var names []string
	for _, match := range flagPattern.FindAllStringSubmatch(code, -1) {
		names = append(names, match[1])
	}
	return sorted(names, func(name string) bool { return slices.Contains(flags(), name) })
}

func variableNames(code string) (known, wrong []string) {
	names := variablePattern.FindAllString(code, -1)
	return sorted(names, func(name string) bool {
		return slices.Contains(variables(), name) || name == "SLIDEGATE_SERVICE_HOST" // set by Kubernetes
	})
}

// metrics holds the names of all metrics, read from the page about them. A test of the program checks that this page lists exactly
// the existing ones.
type metrics []string

func metricsOf(t *testing.T) metrics {
	t.Helper()
	var names metrics
	for _, s := range readPage(t, root, filepath.Join(root, "docs", "observability.md")).spans {
		names = append(names, metricPattern.FindAllString(s.code, -1)...)
	}
	if len(names) < 10 {
		t.Fatalf("found only %v; the test does not read the page right", names)
	}
	return names
}

func (m metrics) names(code string) (known, wrong []string) {
	return sorted(metricPattern.FindAllString(code, -1), func(name string) bool {
		return slices.Contains(m, name) || slices.Contains(notMetrics, name)
	})
}

// notMetrics holds names that look like metrics: PostgreSQL tables, URL options and files.
var notMetrics = []string{
	"slidegate_state", "slidegate_documents", "slidegate_migrations", "slidegate_migrate",
	"slidegate_reservation_key", "slidegate_bench",
}

// api holds the packages of this project.
type api map[string][]*types.Package // by name: two may have the same

var exported api // read once

func readAPI(t *testing.T) api {
	t.Helper()
	if exported == nil {
		exported = loadAPI(t)
	}
	return exported
}

func loadAPI(t *testing.T) api {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{.Name}}", "work").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var paths []string
	for line := range strings.Lines(string(out)) {
		if p, name, _ := strings.Cut(strings.TrimSpace(line), " "); isPublic(p) && name != "main" {
			paths = append(paths, p)
		}
	}
	packages := importerOf(t, token.NewFileSet(), paths)
	found := api{}
	for _, p := range paths {
		imported, err := packages.Import(p)
		if err != nil {
			t.Fatal(err)
		}
		found[imported.Name()] = append(found[imported.Name()], imported)
	}
	return found
}

// isPublic reports whether users can import a package.
func isPublic(p string) bool {
	inside := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
	top, _, _ := strings.Cut(inside, "/")
	return !strings.Contains("/"+inside+"/", "/internal/") && !slices.Contains([]string{"bench", "test", "tools", "examples", "cmd"}, top)
}

var (
	goName    = regexp.MustCompile(`^[*&]?([A-Za-z]\w*)((?:\.[A-Z]\w*)+)(?:[({].*)?$`)
	fileNames = []string{".md", ".go", ".yaml", ".yml", ".json", ".conf"}
)

// names finds Go names such as redisstore.New and Limiter.Allow, and looks them up.
func (a api) names(code string) (known, wrong []string) {
	match := goName.FindStringSubmatch(code)
	if match == nil || slices.Contains(fileNames, path.Ext(code)) {
		return nil, nil
	}
	name := match[1] + match[2]
	members := strings.Split(match[2], ".")[1:]
	packages, isPackage := a[match[1]]
	switch {
	case isPackage:
		return sorted([]string{name}, func(string) bool {
			return slices.ContainsFunc(packages, func(p *types.Package) bool { return hasPath(p, members) })
		})
	case a.hasType(match[1]):
		return sorted([]string{name}, func(string) bool { return a.hasMember(match[1], members) })
	}
	return nil, nil
}

// hasType reports whether some package exports a type of that name.
func (a api) hasType(name string) bool { return a.hasMember(name, nil) }

// hasMember reports whether some package exports a type of that name with these fields or methods.
func (a api) hasMember(name string, members []string) bool {
	if !token.IsExported(name) {
		return false
	}
	for _, packages := range a {
		for _, p := range packages {
			if _, ok := p.Scope().Lookup(name).(*types.TypeName); ok && hasPath(p, append([]string{name}, members...)) {
				return true
			}
		}
	}
	return false
}

// hasPath reports whether a package exports the first name, which has the second as a field or method, and so on.
func hasPath(p *types.Package, names []string) bool {
	object := p.Scope().Lookup(names[0])
	for _, name := range names[1:] {
		if object == nil {
			return false
		}
		object, _, _ = types.LookupFieldOrMethod(object.Type(), true, p, name)
	}
	return object != nil
}
