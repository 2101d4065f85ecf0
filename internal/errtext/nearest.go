// Package errtext formats user input in errors. It quotes the input, with the passwords of URLs masked, and suggests the word
// that a misspelled one was probably meant to be. It does not say where the input was: the readers of files, queries and URLs
// do.
package errtext

import (
	"fmt"
	"strings"
)

// Nearest returns the word that a misspelled word was probably meant to be, and whether there is one. A word is near if it
// differs by one mistake in two to four letters, two in five to seven, and so on. A mistake is a wrong, missing or extra
// letter, or two swapped neighbours; case is ignored. Failing that, a word of three letters or more is an abbreviation of the
// first word that begins with it.
func Nearest(word string, among []string) (string, bool) {
	typed := []rune(strings.ToLower(word))
	nearest, least := "", -1
	for _, candidate := range among {
		meant := []rune(strings.ToLower(candidate))
		allowed := (max(len(typed), len(meant)) + 1) / 3
		if least >= 0 {
			allowed = min(allowed, least-1) // the first of several that are equally near
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

// distance returns the number of mistakes between two words (the optimal string alignment distance).
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

// Unknown returns an error that a word is not one of the valid ones, with the word that was probably meant.
func Unknown(word, kind string, among []string) error {
	return fmt.Errorf("%s is not %s%s (%s)", Quote(word), kind, DidYouMean(word, among), OneOf(among))
}

// DidYouMean suggests the nearest word: it returns "", or a text that begins with a semicolon.
func DidYouMean(word string, among []string) string {
	if near, ok := Nearest(word, among); ok {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// OneOf lists the valid words, at most a hundred, so that the list can be read.
func OneOf(words []string) string {
	const maxWords = 100
	switch {
	case len(words) == 1:
		return "want " + words[0]
	case len(words) > maxWords:
		return fmt.Sprintf("want one of %s and %d more", strings.Join(words[:maxWords], ", "), len(words)-maxWords)
	}
	return "want one of " + strings.Join(words, ", ")
}
