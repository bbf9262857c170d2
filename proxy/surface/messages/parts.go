package messages

import (
	"fmt"
	"strings"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

// part is a part of a chat message: a text, or the address of a picture.
type part struct {
	picture bool
	value   string
}

type parts []part

func (p *parts) addAll(at string, v gjson.Result) error {
	switch {
	case v.Type == gjson.Null:
		return nil
	case v.Type == gjson.String:
		*p = append(*p, part{value: v.Str})
		return nil
	case !v.IsArray():
		return wrong(at, "a string or an array of blocks")
	}
	for i, block := range v.Array() {
		if err := p.add(fmt.Sprintf("%s[%d]", at, i), block); err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) add(at string, block gjson.Result) error {
	switch kind := block.Get("type").Str; kind {
	case "text":
		*p = append(*p, part{value: block.Get("text").Str})
	case "image":
		return p.image(at, block.Get("source"))
	case "document":
		return p.document(at, block)
	case "search_result":
		*p = append(*p, part{value: block.Get("title").Str + "\n" + block.Get("source").Str})
		return p.addAll(at+".content", block.Get("content"))
	case "tool_reference", "browser_state":
		// of tools that were left out
	default:
		return openai.Invalid(at, "unsupported_value", "'%s' is a block of type %.40q, which the engine cannot read. Send text, images, tool results, or documents of plain text.", at, kind)
	}
	return nil
}

func (p *parts) image(at string, source gjson.Result) error {
	var member, head string
	switch source.Get("type").Str {
	case "base64":
		member, head = "data", "data:"+source.Get("media_type").Str+";base64,"
	case "url":
		member = "url"
	default:
		return openai.Invalid(at+".source", "unsupported_value", "'%s.source.type' must be base64 or url; there are no files here.", at)
	}
	where, v := at+".source."+member, source.Get(member)
	if v.Type != gjson.String || v.Str == "" {
		return wrong(where, "a string that is not empty")
	}
	*p = append(*p, part{picture: true, value: head + v.Str})
	return nil
}

func (p *parts) document(at string, block gjson.Result) error {
	for _, head := range []string{"title", "context"} {
		if text := block.Get(head).Str; text != "" {
			*p = append(*p, part{value: text})
		}
	}
	switch source := block.Get("source"); source.Get("type").Str {
	case "text":
		*p = append(*p, part{value: source.Get("data").Str})
		return nil
	case "content":
		return p.addAll(at+".source.content", source.Get("content"))
	}
	return openai.Invalid(at+".source", "unsupported_value", "'%s.source.type' must be text or content: the engine reads no PDF and there are no files here. Send the text of the document.", at)
}

func (p parts) text() string {
	var texts []string
	for _, one := range p {
		if !one.picture {
			texts = append(texts, one.value)
		}
	}
	return strings.Join(texts, "\n")
}

func (p parts) pictures() (out parts) {
	for _, one := range p {
		if one.picture {
			out = append(out, one)
		}
	}
	return out
}

// json is the content of a chat message: a string where that is all there is.
func (p parts) json() string {
	if len(p) == 1 && !p[0].picture {
		return openai.String(p[0].value)
	}
	var list []string
	for _, one := range p {
		if one.picture {
			list = append(list, `{"type":"image_url","image_url":{"url":`+openai.String(one.value)+`}}`)
		} else {
			list = append(list, `{"type":"text","text":`+openai.String(one.value)+`}`)
		}
	}
	return "[" + strings.Join(list, ",") + "]"
}
