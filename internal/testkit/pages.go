package testkit

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Figures returns the numbers in the groups of a pattern that a page of docs contains. Line breaks in the page are spaces for the
// pattern, and "a" is 1. It fails the test if the page contains no such text, so that a check cannot be lost when the page changes.
func Figures(t testing.TB, docs, page, pattern string) []float64 {
	t.Helper()
	text := Must(os.ReadFile(filepath.Join(docs, page)))(t)
	match := regexp.MustCompile(pattern).FindStringSubmatch(strings.Join(strings.Fields(string(text)), " "))
	if match == nil {
		t.Fatalf("%s has no text like %s; change the pattern with the page", page, pattern)
	}
	var figures []float64
	for _, word := range match[1:] {
		if word == "a" {
			word = "1"
		}
		figures = append(figures, Must(strconv.ParseFloat(strings.ReplaceAll(word, ",", ""), 64))(t))
	}
	return figures
}
