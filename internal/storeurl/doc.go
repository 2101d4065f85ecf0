// Package storeurl holds what the packages of stores share to open a store by its URL: a parser for URLs with several hosts, errors
// that never contain a password, and connections that end with the store. Programs that use a store do not need it.
//
//	redis://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?NAME=VALUE
//
// Everything but the scheme is optional. In a user or password, the characters / ? # @ and % are percent-encoded.
package storeurl
