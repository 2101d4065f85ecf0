package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
	"github.com/slidegate/slidegate/httplimit"
)

// match reads a pattern of requests.
func (r *reader) match(e yamlfile.Field) string {
	text, ok := r.Text(e)
	if !ok {
		return ""
	}
	if err := checkMatch(text); err != nil {
		r.Problems.Addf(e.ValueAt(), "match: %w", err)
	}
	return text
}

// CheckMatch returns an error if a policy's Match cannot be read, or fits none of the requests that it was meant for. It is what
// Parse checks, for patterns that are not in a file. The error is an OptionError.
func CheckMatch(pattern string) error {
	if err := checkMatch(pattern); err != nil {
		return &OptionError{Package: "config", Option: "match", Err: err}
	}
	return nil
}

func checkMatch(pattern string) error {
	if pattern == "" {
		return errors.New("the pattern is empty; leave match out for every request")
	}
	var wrong *httplimit.PatternError
	if _, err := httplimit.NewMatcher(pattern); errors.As(err, &wrong) {
		return wrong.Err
	} else if err != nil {
		return err
	}
	if method, rest, found := strings.Cut(pattern, " "); found {
		return checkMethod(method, strings.TrimLeft(rest, " \t"))
	}
	return nil
}

// usualMethods are what nearly all requests have, and otherMethods are known too, though they look like a misspelt one.
var (
	usualMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	otherMethods = []string{
		"CONNECT", "TRACE", "QUERY", "SEARCH", "REPORT", "LOCK", "UNLOCK", "COPY", "MOVE", "LINK", "UNLINK", "PURGE", "BAN", "PUSH", "PULL",
		"PRI", "ACL", "BIND", "LABEL", "MERGE", "MKCOL",
	}
)

// checkMethod refuses a method that is probably a misspelt one. Any other may be an application's own.
func checkMethod(method, rest string) error {
	if slices.Contains(usualMethods, method) || slices.Contains(otherMethods, method) {
		return nil
	}
	if near, ok := wording.Nearest(method, usualMethods); ok {
		return fmt.Errorf("%s is not a method that is known; write %s", wording.Quote(method), wording.Quote(near+" "+rest))
	}
	return nil
}
