import type { PageInfo, PageRequest } from '#gen/modelgateway/common/v1/pagination_pb.ts';

/** Items per page by default (decisions.md, Common). */
const limitDefault = 20;

/** The rows that make up a page. */
export type PageRows = { page: number; limit: number; offset: number };

/** Reads a PageRequest; unset fields take their defaults. */
export function pageRows(request: Partial<Pick<PageRequest, 'page' | 'limit'>> | undefined): PageRows {
  const page = request?.page || 1;
  const limit = request?.limit || limitDefault;
  return { page, limit, offset: (page - 1) * limit };
}

/** A PageInfo, whether a message or not. */
export type PlainPageInfo = Omit<PageInfo, '$typeName' | '$unknown'>;

/** Describes a page of a list of `total` items. */
export function pageInfo({ page, limit }: PageRows, total: number): PlainPageInfo {
  const totalPages = Math.ceil(total / limit);
  return { page, limit, total: BigInt(total), totalPages, hasNext: page < totalPages, hasPrev: page > 1 && total > 0 };
}
