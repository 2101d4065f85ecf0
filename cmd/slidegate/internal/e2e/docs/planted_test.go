package docs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPlantedMistakes checks that every check finds the mistakes planted on a page, at the right lines, and no others.
func TestPlantedMistakes(t *testing.T) {
	t.Parallel()
	startRedis(t) // without the programs that the samples need, some mistakes would not be found
	for _, name := range []string{"curl", "nginx", "caddy"} {
		installed(t, name)
	}
	const folder = "testdata/planted"
	pages := []*page{readPage(t, folder, filepath.Join(folder, "mistakes.txt"))}
	for _, c := range []struct {
		name  string
		check func(t *testing.T) []problem
		want  []string
	}{
		{"links", func(*testing.T) []problem { return checkLinks(folder, pages) }, []string{
			"3: the link nowhere.md leads nowhere",
			"3: the link #no-such-heading leads nowhere",
			"4: the link [that-is-not-there] is not defined",
			"4: the link none.png leads nowhere",
			"5: the link htps://example.com is neither",
			"5: the link ../../../../../../../../elsewhere.md leads out",
		}},
		{"names", func(t *testing.T) []problem { found, _ := checkNames(t, pages); return found }, []string{
			"7: unknown name memstore.NewNothing", "7: unknown name Limiter.Guess", "7: unknown name --no-such-flag", "7: unknown name SLIDEGATE_NOTHING",
			"8: unknown name slidegate_nothing_total",
		}},
		{"Go", func(t *testing.T) []problem { found, _ := checkGo(t, pages); return found }, []string{
			"19: undefined: slidegate.PerFortnight",
			"23: cannot use 7",
			`31: "os" imported and not used`,
			"62: users cannot import", "64: undefined: service.Config",
		}},
		{"programs", func(t *testing.T) []problem { found, _ := checkPrograms(t, pages); return found }, []string{
			"27: the program does not build", "38: the program prints\none", "52: the tests fail", "60: the program does not build",
			"119: the server answers request 3 with 200 OK", `138: the refusal has the Retry-After "1", want`,
			"164: the server answers\nHTTP/1.1 429 Too Many Requests\nCache-Control: no-store", "192: the server answers another client with 429",
			"210: the program fails: exit status 1", `231: the line "true 0 fallback-open" must be "true 4 fallback-open"`,
			"275: nothing runs this package",
		}},
		{"fragments", func(t *testing.T) []problem { found, _ := checkFragments(t, pages); return found }, []string{
			"283: the sample fails", "287: the sample fails", "291: the sample fails", "295: the sample prints that something is false",
			"299: the sample fails",
		}},
		{"SQL", func(t *testing.T) []problem { found, _ := checkSQL(t, pages); return found }, []string{"303: PostgreSQL rejects this"}},
		{"commands", func(t *testing.T) []problem { found, _ := checkCommands(t, pages); return found }, []string{
			"68: slidegate serve --limti 100/1m: unknown flag --limti", "69: make no-such-target: no such target",
			"70: go run ./cmd/nothing: no such package: ./cmd/nothing", "71: the shell cannot parse",
			"74: slidegate config chekc slidegate.yaml: unexpected argument chekc",
			"80: slidegate allow me --no-such-flag: unknown flag",
		}},
		{"consoles", func(t *testing.T) []problem { found, _ := checkConsoles(t, pages); return found }, []string{
			"78: slidegate allow me\nit prints\nallowed", "80: slidegate allow me --no-such-flag\nit fails", "81: slidegate serve --limit nonsense\nit ends",
			"319: go run main.go\nit prints\none", "324: no console block runs unused.go",
		}},
		{"files", func(t *testing.T) []problem { found, _ := checkFiles(t, pages); return found }, []string{
			"10: the block has no language", "14: no check for blocks in cobol",
			`88: "no_such_field" is not a field`, "95: unit: \"fortnight\" is not a unit", "99: invalid YAML", "103: invalid JSON",
			"107: nginx rejects this", "111: Caddy rejects this",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compare(t, c.check(t), c.want)
		})
	}
}

// TestUnreachedPage checks that a page to which only itself links is reported.
func TestUnreachedPage(t *testing.T) {
	pages := []*page{
		parsePage("docs/README.md", []byte("[found](found.md#a)\n")),
		parsePage("docs/found.md", []byte("# A\n\n[the index](README.md)\n")),
		parsePage("docs/lonely.md", []byte("# B\n\n[myself](lonely.md) [too](#b)\n")),
	}
	got := checkReached(pages)
	if len(got) != 1 || got[0].path != "docs/lonely.md" {
		t.Errorf("found %v, want docs/lonely.md alone", got)
	}
}

// compare fails the test for unexpected and for missing problems.
func compare(t *testing.T, got []problem, want []string) {
	t.Helper()
	missing := slices.Clone(want)
	for _, p := range got {
		message := strings.TrimPrefix(p.String(), "mistakes.txt:")
		at := slices.IndexFunc(missing, func(w string) bool { return strings.HasPrefix(message, w) })
		if at < 0 {
			t.Errorf("unexpected problem: %s", p)
			continue
		}
		missing = slices.Delete(missing, at, at+1)
	}
	for _, w := range missing {
		t.Errorf("not found: mistakes.txt:%s", w)
	}
}
