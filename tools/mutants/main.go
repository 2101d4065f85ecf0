// Command mutants plants bugs in the product, one at a time, and reports which test catches each.
//
//	cd tools && go run ./mutants               # all of them; hours
//	cd tools && go run ./mutants -sample 6     # six, which change with the last commit
//	cd tools && go run ./mutants engine/ http  # those whose names contain one of these words
//	cd tools && go run ./mutants -check        # only whether each can still be planted
//
// It exits with 1 if a bug survives or cannot be planted. The files in planted say what each bug breaks; README.md describes them. The tree is not
// changed: the go command reads each mutated file through -overlay.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	check := flag.Bool("check", false, "only check that each mutant can be planted")
	sample := flag.Int("sample", 0, "how many mutants to run, chosen by the last commit; 0 runs all")
	parallel := flag.Int("parallel", 1, "how many mutants to run at the same time")
	root := flag.String("root", "..", "the root of the repository")
	folder := flag.String("planted", "mutants/planted", "the folder with the mutants")
	flag.Parse()
	if err := run(*root, *folder, flag.Args(), *sample, *parallel, *check); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root, folder string, words []string, sample, parallel int, check bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	mutants, err := readAll(folder)
	if err != nil {
		return err
	}
	var stale []error
	for _, m := range mutants {
		if _, err := m.mutated(root); err != nil {
			stale = append(stale, err)
		}
	}
	if err := errors.Join(stale...); err != nil {
		return err
	}
	fmt.Printf("%d mutants can be planted\n", len(mutants))
	if check {
		return nil
	}
	if mutants = choose(root, mutants, words, sample); len(mutants) == 0 {
		return fmt.Errorf("no mutant has a name that contains one of %q", words)
	}
	if err := passes(root, mutants); err != nil {
		return err
	}
	return plantAll(root, mutants, parallel)
}

// choose returns the mutants whose names contain one of the words, or sample of all, which change with the last commit.
func choose(root string, all []mutant, words []string, sample int) []mutant {
	var chosen []mutant
	for _, m := range all {
		if len(words) == 0 || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(m.name, word) }) {
			chosen = append(chosen, m)
		}
	}
	if sample == 0 || sample >= len(chosen) {
		return chosen
	}
	git := exec.Command("git", "rev-parse", "HEAD")
	git.Dir = root
	commit, err := git.Output()
	if err != nil {
		commit = []byte("no commit")
	}
	seed := fnv.New64a()
	_, _ = seed.Write(commit)
	rand.New(rand.NewPCG(seed.Sum64(), 0)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen[:sample]
}

// passes runs the tests of the mutants without a bug: a test that fails anyway would catch everything.
func passes(root string, mutants []mutant) error {
	ran := map[string]bool{}
	for _, m := range mutants {
		for _, line := range m.tests {
			if ran[line] {
				continue
			}
			ran[line] = true
			if failed, output, err := test(root, "", line); err != nil || failed != "" {
				return fmt.Errorf("without a mutant, go test %s fails: %s %w\n%s", line, failed, err, output)
			}
		}
	}
	return nil
}

// plantAll prints what became of each mutant, in the order of the files.
func plantAll(root string, mutants []mutant, parallel int) error {
	type result struct {
		killer string
		took   time.Duration
		err    error
	}
	results := make([]result, len(mutants))
	free, done := make(chan struct{}, parallel), sync.WaitGroup{}
	for i, m := range mutants {
		free <- struct{}{}
		done.Go(func() {
			defer func() { <-free }()
			began := time.Now()
			killer, err := m.plant(root)
			results[i] = result{killer, time.Since(began), err}
			fmt.Printf("%-44s %6.1fs  %s\n", m.name, time.Since(began).Seconds(), cmp.Or(killer, "SURVIVED"))
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	done.Wait()
	survivors, broken := 0, 0
	for _, r := range results {
		switch {
		case r.err != nil:
			broken++
		case r.killer == "":
			survivors++
		}
	}
	fmt.Printf("%d mutants: %d killed, %d survived, %d could not be run\n", len(mutants), len(mutants)-survivors-broken, survivors, broken)
	if survivors+broken > 0 {
		return errors.New("a mutant survives, or could not be run")
	}
	return nil
}
