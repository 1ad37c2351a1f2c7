/** Up to its end, or to that of the text: it may be still growing. */
const code = /(?<marks>`+|~{3,})[\s\S]*?(?:\k<marks>|(?![\s\S]))/;

/** A formula in LaTeX, which may have several lines. What goes on for longer than 2,000 characters is none. */
const display = /\\\[(?:(?!\\\])[\s\S]){1,2000}\\\]|\$\$(?:(?!\$\$)[\s\S]){1,2000}\$\$/;
/** One within a line. */
const inline = /(?<!\\)\\\(.{1,2000}?\\\)|(?<!\\)\\\[.{1,2000}?\\\]|\$\$.{1,2000}?\$\$/;

const codeOrFormula = new RegExp(
  `(?<code>${code.source})|^(?<indent>[ \\t]*)(?<block>${display.source})[ \\t]*$|${inline.source}`,
  'gm',
);

/** Makes code of the formulas in Markdown, which would take their backslashes, underscores and asterisks for its own. */
export const formulasAsCode = (markdown: string): string =>
  markdown.replace(codeOrFormula, (found: string, ...rest: unknown[]) => {
    const parts = rest.at(-1) as { code?: string; indent?: string; block?: string };
    if (parts.code !== undefined) return found;
    const { indent = '', block } = parts;
    return block === undefined ? `\`\`${found}\`\`` : `${indent}\`\`\`\n${indent}${block}\n${indent}\`\`\``;
  });
