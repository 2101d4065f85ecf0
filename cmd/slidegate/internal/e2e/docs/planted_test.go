package docs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every check finds the mistakes of a page that is full of them, at the right line, and no others.
func TestPlantedMistakes(t *testing.T) {
	const folder = "testdata/planted"
	pages := []*page{readPage(t, folder, filepath.Join(folder, "mistakes.md"))}
	for _, c := range []struct {
		name  string
		check func() []problem
		want  []string
	}{
		{"links", func() []problem { return checkLinks(folder, pages) }, []string{
			"3: the link nowhere.md leads nowhere",
			"3: the link #no-such-heading leads nowhere",
			"4: the link [that-is-not-there] is not defined",
			"4: the link none.png leads nowhere",
			"5: the link htps://example.com is neither",
			"5: the link ../../../../../../../../elsewhere.md leads out",
		}},
		{"names", func() []problem { found, _ := checkNames(t, pages); return found }, []string{
			"7: there is no memstore.NewNothing", "7: there is no Limiter.Guess", "7: there is no --no-such-flag", "7: there is no SLIDEGATE_NOTHING",
			"8: there is no slidegate_nothing_total",
		}},
		{"Go", func() []problem { found, _ := checkGo(t, pages); return found }, []string{
			"19: undefined: slidegate.PerFortnight",
			"23: cannot use 7",
			`31: "os" imported and not used`,
			"62: users cannot import", "64: undefined: server.Config",
		}},
		{"programs", func() []problem { found, _ := checkPrograms(t, pages); return found }, []string{
			"38: the program prints\none", "52: the tests fail",
		}},
		{"commands", func() []problem { found, _ := checkCommands(t, pages); return found }, []string{
			"68: slidegate serve --limti 100/1m: unknown flag --limti", "69: make no-such-target: there is no such target",
			"70: go run ./cmd/nothing: there is no ./cmd/nothing", "71: the shell cannot read",
			"74: slidegate config chekc slidegate.yaml: unexpected argument chekc",
			"80: slidegate allow me --no-such-flag: unknown flag",
		}},
		{"consoles", func() []problem { found, _ := checkConsoles(t, pages); return found }, []string{
			"78: slidegate allow me\nit prints\nallowed", "80: slidegate allow me --no-such-flag\nit fails", "81: slidegate serve --limit nonsense\nit ends",
		}},
		{"files", func() []problem { found, _ := checkFiles(t, pages); return found }, []string{
			"10: the block has no language", "14: nothing says how blocks in cobol are checked",
			`88: "no_such_field" is not a field`, "95: unit: \"fortnight\" is not a unit", "99: this is not YAML", "103: this is not JSON",
			"107: nginx does not take this", "111: Caddy does not take this",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compare(t, c.check(), c.want)
		})
	}
}

// A page that only links to itself is not reached.
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

// compare fails the test for problems that are not wanted, and for wanted ones that are not there.
func compare(t *testing.T, got []problem, want []string) {
	t.Helper()
	missing := slices.Clone(want)
	for _, p := range got {
		said := strings.TrimPrefix(p.String(), "mistakes.md:")
		at := slices.IndexFunc(missing, func(w string) bool { return strings.HasPrefix(said, w) })
		if at < 0 {
			t.Errorf("found %s, which is not one of the mistakes", p)
			continue
		}
		missing = slices.Delete(missing, at, at+1)
	}
	for _, w := range missing {
		t.Errorf("not found: mistakes.md:%s", w)
	}
}
