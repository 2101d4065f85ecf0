package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// maxThresholds is how many thresholds a limit may have.
const maxThresholds = 8

// notifyMark precedes the thresholds of a limit that is written as a text, at its end.
const notifyMark = "notify="

// notify reads the thresholds of a limit that is written field by field.
func (r *reader) notify(e yamlfile.Field) []int {
	list, ok := e.Value.(*ast.SequenceNode)
	if !ok {
		r.Problems.Addf(e.ValueAt(), "notify: must be a list of percentages, such as [80%%, 100%%], not %s", yamlfile.Describe(e.Value))
		return nil
	}
	var texts []string
	for _, item := range list.Values {
		text, _, ok := yamlfile.Scalar(r.Resolve(item))
		if !ok {
			r.Problems.Addf(yamlfile.PositionOf(item), "notify: must be a percentage, such as 80%%")
			return nil
		}
		texts = append(texts, text)
	}
	percents, err := parseThresholds(texts)
	if err != nil {
		r.Problems.Add(e.ValueAt(), err)
	}
	return percents
}

// parseThresholds returns the numbers of percentages.
func parseThresholds(texts []string) (percents []int, err error) {
	if len(texts) == 0 || len(texts) > maxThresholds {
		return nil, fmt.Errorf("notify: must have 1 to %d percentages, such as [80%%, 100%%], not %d", maxThresholds, len(texts))
	}
	for _, text := range texts {
		digits, marked := strings.CutSuffix(text, "%")
		percent, err := strconv.Atoi(digits)
		switch {
		case !marked || err != nil || percent < 1 || percent > 100 || digits != strconv.Itoa(percent):
			return nil, fmt.Errorf("notify: must be 1%% to 100%%, in whole percent, not %s", errtext.Quote(text))
		case slices.Contains(percents, percent):
			return nil, fmt.Errorf("notify: duplicate %d%%; leave one of them out", percent)
		}
		percents = append(percents, percent)
	}
	return percents, nil
}

// cutThresholds returns the text of a limit without the thresholds at its end, and these.
func cutThresholds(text string) (rest string, percents []int, err error) {
	at := strings.LastIndexByte(text, ' ')
	list, has := strings.CutPrefix(text[at+1:], notifyMark)
	if at < 0 || !has {
		return text, nil, nil
	}
	percents, err = parseThresholds(strings.Split(list, ","))
	return text[:at], percents, err
}

// checkNotify returns an error for a limit of which no decision shows that a threshold was crossed.
func checkNotify(limit slidegate.Limit) error {
	switch {
	case limit.Algorithm == slidegate.InFlight:
		return errors.New("cannot be used with in-flight: slots are taken and released all the time; leave one of them out")
	case limit.Lease:
		return errors.New("cannot be combined with lease: leased units are spent without the store, which then sees no crossing; leave one of them out")
	case limit.CountRefused:
		return errors.New("cannot be combined with count_refused: refused requests would cross thresholds that no answer shows; leave one of them out")
	}
	return nil
}

// AddLimit adds a limit that is written as a text, and the thresholds at its end. The error is a slidegate.LimitError.
func (p *Policy) AddLimit(text string) error {
	rest, percents, err := cutThresholds(text)
	if err != nil {
		return &slidegate.LimitError{Text: text, Err: fmt.Errorf("%w: %w", slidegate.ErrLimit, err)}
	}
	limit, err := slidegate.ParseLimit(rest)
	if err != nil {
		return err
	}
	if err := checkNotify(limit); err != nil && len(percents) > 0 {
		return &slidegate.LimitError{Text: text, Err: fmt.Errorf("%w: notify: %w", slidegate.ErrLimit, err)}
	}
	p.Limits = append(p.Limits, limit)
	p.Notify = appendThresholds(p.Notify, limit, percents)
	return nil
}

// addThresholds adds the thresholds of a valid limit to those of its policy.
func (r *reader) addThresholds(at yamlfile.Position, limit slidegate.Limit, percents []int) {
	if err := checkNotify(limit); err != nil && len(percents) > 0 {
		r.Problems.Addf(at, "notify: %w", err)
		return
	}
	r.thresholds = appendThresholds(r.thresholds, limit, percents)
}

// appendThresholds appends the thresholds of a limit that are not there yet.
func appendThresholds(to []policy.Threshold, limit slidegate.Limit, percents []int) []policy.Threshold {
	for _, percent := range percents {
		if one := (policy.Threshold{Limit: limit, Percent: percent}); !slices.Contains(to, one) {
			to = append(to, one)
		}
	}
	return to
}

// finishThresholds sets the thresholds of a policy that has been read.
func (r *reader) finishThresholds(p *Policy) {
	p.Notify = r.thresholds
	if from := r.overridesFrom; from != nil {
		p.Notify = append(p.Notify, from.thresholds...)
	}
	if len(p.Notify) > 0 && r.leaseAt.Line > 0 {
		r.Problems.Addf(r.leaseAt, "lease: applies to all limits of the policy, and some have notify; %w", errLeasedNotify)
	}
}

var errLeasedNotify = errors.New("write lease: true for the other limits, or leave notify out")

// thresholdText returns how the thresholds of a limit are written in a text, with a space before, or "" if it has none.
func thresholdText(of []policy.Threshold, limit slidegate.Limit) string {
	var texts []string
	for _, one := range of {
		if one.Limit == limit {
			texts = append(texts, strconv.Itoa(one.Percent)+"%")
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " " + notifyMark + strings.Join(texts, ",")
}
