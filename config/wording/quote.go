package wording

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Quote quotes what somebody wrote, masked by Mask, and cuts it short if there is no end to it.
func Quote(text string) string {
	const most = 60
	text = Mask(text)
	if len(text) <= most {
		return strconv.Quote(text)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strconv.Quote(text[:cut]) + "..."
}

// Mask masks the passwords of a URL that stands in the wrong place; it leaves a text alone that has none in it.
func Mask(text string) string {
	if strings.Contains(text, "://") {
		return Redact(text)
	}
	return text
}

// masked stands for a password.
const masked = "***"

// Redact returns a URL with its passwords masked, for people to see: the one before the host, and those in parameters whose
// names say that they are. It masks too much rather than too little of what is no proper URL.
func Redact(address string) string {
	start := strings.Index(address, "://") + len("://")
	if at := strings.LastIndexByte(address, '@'); start >= len("://") && at >= start {
		if user, _, hasPassword := strings.Cut(address[start:at], ":"); hasPassword {
			address = address[:start] + user + ":" + masked + address[at:]
		}
	}
	before, parameters, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	var b strings.Builder
	b.WriteString(before)
	for separator := "?"; separator != ""; {
		b.WriteString(separator)
		parameter, rest := parameters, ""
		separator = ""
		if end := strings.IndexAny(parameters, "&;"); end >= 0 {
			parameter, separator, rest = parameters[:end], parameters[end:end+1], parameters[end+1:]
		}
		b.WriteString(redactParameter(parameter))
		parameters = rest
	}
	return b.String()
}

// redactParameter masks the value of a parameter if it is a secret, however its name is encoded.
func redactParameter(parameter string) string {
	name, _, hasValue := strings.Cut(parameter, "=")
	plain, err := url.QueryUnescape(name)
	if err != nil {
		plain = name
	}
	plain = strings.ToLower(plain)
	for _, word := range []string{"password", "passwd", "pwd", "secret", "token"} {
		if hasValue && strings.Contains(plain, word) {
			return name + "=" + masked
		}
	}
	return parameter
}
