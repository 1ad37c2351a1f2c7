import Markdown, { type MarkdownToJSX } from 'markdown-to-jsx/react';
import { createElement, memo, type ReactElement, type ReactNode } from 'react';
import { CrashGuard } from '../../shell/crash-guard.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { formulasAsCode } from './formulas.ts';

/**
 * An answer as its Markdown says (CommonMark, and the tables and lists of tasks of GitHub). It is not trusted: HTML in it stays text, its
 * pictures become links, since loading one would tell others that it is seen, and it names no element, since the page has names of its own.
 * One in JSON is shown as it is, and so are formulas. One that is nested deeper than a browser can draw is shown as its text.
 */
export const AnswerText = memo(({ text, growing }: { text: string; growing: boolean }) =>
  beginsAsJson.test(text) ? (
    <CodeBlock label="JSON" code={text} wraps />
  ) : (
    // An answer that is asked for again begins without text, and so with a new guard.
    text !== '' && (
      <CrashGuard instead={<span className="whitespace-pre-wrap">{text}</span>}>
        <Markdown options={growing ? growingOptions : options}>{formulasAsCode(text)}</Markdown>
      </CrashGuard>
    )
  ),
);

/** The beginning tells, since an answer may be still growing or cut off. As Markdown, JSON would lose its backslashes and its indentation. */
const beginsAsJson = /^\s*(\{\s*["}]|\[\s*[[{"])/;

type Children = { children?: ReactNode };

/** A link to elsewhere: an answer knows nothing of the portal's own pages. */
export function OuterLink({ href = '', children }: Children & { href?: string }) {
  if (!/^(https?|mailto):/i.test(href)) return children;
  return (
    <a href={href} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}

/** Goes in the direction of its language: its marks and its columns do, and not only its words. */
const directed = { props: { dir: 'auto' } } as const;

/** Below the titles of the page, whatever the model takes it for. */
const Heading = ({ children }: Children) => <h3>{children}</h3>;

const options: MarkdownToJSX.Options = {
  disableParsingRawHTML: true,
  disableFrontmatter: true,
  forceBlock: true,
  forceWrapper: true,
  wrapperProps: { className: 'markdown' } as object,
  createElement: (tag, props, ...children) => createElement(tag, { ...props, id: undefined } as object, ...children),
  overrides: {
    a: OuterLink,
    img: ({ src, alt }: { src?: string; alt?: string }) => <OuterLink href={src}>{alt || src}</OuterLink>,
    input: ({ checked }: { checked: boolean }) => (checked ? '☑' : '☐'),
    pre: ({ children }: { children: ReactElement<{ children: string }> }) => (
      <CodeBlock label="Code" code={children.props.children} />
    ),
    table: ({ children }: Children) => (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard.
      <div tabIndex={0} dir="auto" className="overflow-x-auto">
        <table>{children}</table>
      </div>
    ),
    ul: directed,
    ol: directed,
    blockquote: directed,
    h1: Heading,
    h2: Heading,
    h3: Heading,
    h4: Heading,
    h5: Heading,
    h6: Heading,
  },
};

/** What has been begun and may become anything is not shown yet, rather than as its first sign. */
const growingOptions: MarkdownToJSX.Options = { ...options, optimizeForStreaming: true };
