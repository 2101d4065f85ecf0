package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// checkClean returns an error if the tree differs from its commit: what is published would not be what is tagged.
func checkClean(root string) error {
	out, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if changed := strings.TrimRight(string(out), "\n"); changed != "" {
		return fmt.Errorf("the tree differs from its last commit; commit or undo these changes:\n%s", changed)
	}
	return nil
}

// dateOf returns the date of a version in a changelog.
func dateOf(changelog, number string) (time.Time, error) {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return time.Time{}, err
	}
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(number) + `\] - (\S+)$`)
	match := heading.FindSubmatch(text)
	if match == nil {
		return time.Time{}, fmt.Errorf("CHANGELOG.md: has no entry for %s; add one with the heading ## [%s] - %s",
			number, number, time.Now().UTC().Format(time.DateOnly))
	}
	date, err := time.Parse(time.DateOnly, string(match[1]))
	if err != nil {
		return time.Time{}, fmt.Errorf("CHANGELOG.md: ## [%s]: %q is not a date; write it as 2026-01-31", number, match[1])
	}
	return date, nil
}
