// Package proxy is a reverse proxy with limits, for an application that cannot be changed: a gate decides about every
// request, and what it admits is passed on as the client wrote it. Bodies stream in both directions, and websockets,
// server-sent events, trailers and interim answers pass. Who the client is, the application is told in X-Forwarded-For,
// in which nobody is believed but proxies that are trusted.
package proxy
