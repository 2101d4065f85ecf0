// Package wording is for errors about what people wrote. It quotes it, with the passwords of URLs masked, and finds the word that
// a misspelt one was probably meant to be. It says nothing of where the word stood: that is for those who read files, queries
// and URLs.
package wording

import (
	"fmt"
	"strings"
)

// Nearest returns the one among the words that a misspelt word was probably meant to be, and whether there is one. Near
// is a word with one mistake in two to four letters, two in five to seven, and so on: a letter wrong, missing or too
// many, or two neighbours swapped; capital letters are no mistake. Failing that, a word of three letters or more is an
// abbreviation of the first word that begins with it.
func Nearest(word string, among []string) (string, bool) {
	typed := []rune(strings.ToLower(word))
	nearest, least := "", -1
	for _, candidate := range among {
		meant := []rune(strings.ToLower(candidate))
		allowed := (max(len(typed), len(meant)) + 1) / 3
		if least >= 0 {
			allowed = min(allowed, least-1) // of several that are as near, the first
		}
		if allowed < 0 || max(len(typed), len(meant))-min(len(typed), len(meant)) > allowed {
			continue
		}
		if d := distance(typed, meant); d <= allowed {
			nearest, least = candidate, d
		}
	}
	if least >= 0 {
		return nearest, true
	}
	if len(typed) >= 3 {
		for _, candidate := range among {
			if strings.HasPrefix(strings.ToLower(candidate), string(typed)) {
				return candidate, true
			}
		}
	}
	return "", false
}

// distance is how many mistakes lie between two words (the optimal string alignment).
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := last[j-1]
			if a[i-1] != b[j-1] {
				wrong++
			}
			row[j] = min(wrong, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Unknown says that a word is not what it should be, which word was probably meant, and which there are.
func Unknown(word, what string, among []string) error {
	return fmt.Errorf("%s is not %s%s (%s)", Quote(word), what, DidYouMean(word, among), ThereAre(among))
}

// DidYouMean asks for the nearest word, if there is one: what it returns is empty, or begins with a semicolon.
func DidYouMean(word string, among []string) string {
	if near, ok := Nearest(word, among); ok {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// ThereAre lists words, a hundred at most: what is listed is to be read.
func ThereAre(words []string) string {
	const most = 100
	switch {
	case len(words) == 1:
		return "there is only " + words[0]
	case len(words) > most:
		return fmt.Sprintf("there are %s and %d more", strings.Join(words[:most], ", "), len(words)-most)
	}
	return "there are " + strings.Join(words, ", ")
}
